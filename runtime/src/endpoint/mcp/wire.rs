//! JSON-RPC lines. Each is parsed once, here, so that what is checked is what is used: lines are bounded, and a
//! `tools/call` with fields that MCP does not name is marked before they are lost.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use stockade_protocol::limits;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Messages read and not yet taken, and messages waiting to be written.
const QUEUE: usize = 64;

/// Fields of a `tools/call` beside those that belong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownFields(pub(crate) Vec<String>);

/// Fields that belong in the parameters of `tools/call`. Answers to questions of the server are not among them, since
/// this server asks none.
const CALL_FIELDS: [&str; 3] = ["name", "arguments", "_meta"];

/// A connection of one JSON message a line.
#[derive(Debug)]
pub(crate) struct Lines {
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: Option<mpsc::Sender<TxJsonRpcMessage<RoleServer>>>,
    writing: Option<JoinHandle<()>>,
    reading: JoinHandle<()>,
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Lines {
    pub(crate) fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (arrived, incoming) = mpsc::channel(QUEUE);
        let (outgoing, to_write) = mpsc::channel(QUEUE);
        let reading = tokio::spawn(read(input, arrived, outgoing.clone()));
        let writing = tokio::spawn(write(output, to_write));
        Self { incoming, outgoing: Some(outgoing), writing: Some(writing), reading }
    }
}

impl Transport<RoleServer> for Lines {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            outgoing.ok_or_else(closed)?.send(item).await.map_err(|_unsent| closed())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.reading.abort();
        self.outgoing = None;
        match self.writing.take() {
            Some(writing) => writing.await.map_err(std::io::Error::other),
            None => Ok(()),
        }
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<TxJsonRpcMessage<RoleServer>>) {
    while let Some(message) = messages.recv().await {
        let Ok(mut line) = serde_json::to_vec(&message) else { continue };
        line.push(b'\n');
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

async fn read(
    input: impl AsyncRead + Unpin,
    arrived: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    outgoing: mpsc::Sender<TxJsonRpcMessage<RoleServer>>,
) {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = limits::FRAME_BYTES as u64 + 1;
        match (&mut input).take(most).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let answer = if line.last() != Some(&b'\n') && line.len() > limits::FRAME_BYTES {
            if !skip_line(&mut input).await {
                return;
            }
            let what = format!("a message has more than {} bytes", limits::FRAME_BYTES);
            Err(Box::new(TxJsonRpcMessage::<RoleServer>::error(ErrorData::invalid_request(what, None), None)))
        } else if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        } else {
            parse(&line)
        };
        let delivered = match answer {
            Ok(message) => arrived.send(message).await.is_ok(),
            Err(error) => outgoing.send(*error).await.is_ok(),
        };
        if !delivered {
            return;
        }
    }
}

/// Drops the rest of a line; false when the input ends first.
async fn skip_line(input: &mut (impl AsyncBufRead + Unpin)) -> bool {
    loop {
        let Ok(bytes) = input.fill_buf().await else { return false };
        if bytes.is_empty() {
            return false;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return true;
        }
    }
}

fn parse(line: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Box<TxJsonRpcMessage<RoleServer>>> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let what = format!("not JSON: {error}");
        Box::new(TxJsonRpcMessage::<RoleServer>::error(ErrorData::parse_error(what, None), None))
    })?;
    let id: Option<RequestId> = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    let unknown = unknown_fields(&value);
    let mut message: RxJsonRpcMessage<RoleServer> = serde_json::from_value(value).map_err(|error| {
        let what = format!("not a message of MCP: {error}");
        Box::new(TxJsonRpcMessage::<RoleServer>::error(ErrorData::invalid_request(what, None), id))
    })?;
    if let (Some(unknown), JsonRpcMessage::Request(request)) = (unknown, &mut message)
        && let ClientRequest::CallToolRequest(call) = &mut request.request
    {
        call.extensions.insert(unknown);
    }
    Ok(message)
}

fn unknown_fields(message: &Value) -> Option<UnknownFields> {
    if message.get("method").and_then(Value::as_str) != Some("tools/call") {
        return None;
    }
    let beside = |object: Option<&Value>, known: &[&str]| -> Vec<String> {
        let members = object.and_then(Value::as_object).into_iter().flatten();
        members.map(|(name, _)| name.clone()).filter(|name| !known.contains(&name.as_str())).collect()
    };
    let mut fields = beside(message.get("params"), &CALL_FIELDS);
    fields.extend(beside(Some(message), &["jsonrpc", "id", "method", "params"]));
    (!fields.is_empty()).then_some(UnknownFields(fields))
}
