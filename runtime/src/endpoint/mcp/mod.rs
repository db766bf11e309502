//! The MCP server: any MCP client's agent gets the project's tools, and every call goes the same way as all others.
//!
//! `initialize` is answered without a runtime, so that a client that does not wait for slow servers finds this one.
//! The runtime is reached at the first request that needs it. One connection is one run.
//!
//! Invariant: nothing a client sends besides a tool's name and arguments has any influence on whether the call runs.

mod arguments;
mod wire;

#[cfg(test)]
mod tests;

use crate::control::{Caller, Serve};
use arguments::request_of;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use stockade_protocol::command::{Command, Reply};
use stockade_protocol::ids::RunId;
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_protocol::request::{ToolCallRequest, ToolInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// How the endpoint reaches the runtime, once a client's name is known.
pub trait Connect: Send + Sync + 'static {
    /// What answers commands.
    type Runtime: Serve;

    /// Joins the runtime that has the project open, or starts one.
    fn connect(&self, client: &str) -> impl Future<Output = Result<(Self::Runtime, Caller), Refusal>> + Send;

    /// Whether that runtime is still there. When it is not, the next call connects again, in a run of its own.
    fn is_open(&self, runtime: &Self::Runtime) -> bool;
}

/// Serving ended with an error of the connection's.
#[derive(Debug, thiserror::Error)]
#[error("the MCP connection failed: {0}")]
pub struct McpError(String);

/// First word to a waiting client that its call is in progress, and the time between further ones.
const PROGRESS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// Serves one client until its input ends. Calls still in progress then get a few seconds to answer and are cancelled
/// after that; on return the client's run has ended.
///
/// # Errors
/// When the client speaks no MCP that this server knows.
pub async fn serve<C: Connect>(
    connect: C,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), McpError> {
    let (gone, is_gone) = watch::channel(false);
    let endpoint = Arc::new(Endpoint { connect, joined: Mutex::new(None), gone: is_gone });
    let served = match Face(Arc::clone(&endpoint)).serve(wire::Lines::new(input, output)).await {
        Ok(service) => service.waiting().await.map(drop).map_err(|error| McpError(error.to_string())),
        // A client that leaves before it said anything has done nothing wrong.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(McpError(error.to_string())),
    };
    let _ = gone.send(true);
    let joined = endpoint.joined.lock().await.take();
    if let Some(joined) = joined {
        joined.runtime.caller_gone(&joined.caller).await;
    }
    served
}

/// What one connection shares.
struct Endpoint<C: Connect> {
    connect: C,
    joined: Mutex<Option<Joined<C::Runtime>>>,
    /// True once the client's input has ended.
    gone: watch::Receiver<bool>,
}

/// The runtime behind one connection.
#[derive(Clone)]
struct Joined<R> {
    runtime: R,
    caller: Caller,
    /// The connection's run, opened by its first call.
    run: Option<RunId>,
}

impl<C: Connect> Endpoint<C> {
    /// The runtime, joined now if it was not.
    async fn join(&self, context: &RequestContext<RoleServer>, with_run: bool) -> Result<Joined<C::Runtime>, Refusal> {
        let client = context.client_info().map_or_else(|| "unknown".to_owned(), |client| client.name);
        let mut held = self.joined.lock().await;
        if held.as_ref().is_some_and(|joined| !self.connect.is_open(&joined.runtime)) {
            *held = None;
        }
        let mut joined = match held.take() {
            Some(joined) => joined,
            None => {
                let (runtime, caller) = self.connect.connect(&client).await?;
                Joined { runtime, caller, run: None }
            }
        };
        let mut refusal = None;
        if with_run && joined.run.is_none() {
            let title = format!("MCP: {client}");
            match joined.runtime.command(&joined.caller, Command::OpenRun { title }).await {
                Reply::Started { run } => joined.run = Some(run),
                Reply::Refused { refusal: why } => refusal = Some(why),
                other => refusal = Some(out_of_place(&other)),
            }
        }
        *held = Some(joined.clone());
        refusal.map_or(Ok(joined), Err)
    }

    async fn call(
        &self,
        request: ToolCallRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let joined = match self.join(context, true).await {
            Ok(joined) => joined,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        let mut gone = self.gone.clone();
        let mut progress = Progress::new(context);
        let command = Command::Call { request, run: joined.run };
        let mut answer = std::pin::pin!(joined.runtime.command(&joined.caller, command));
        let reply = loop {
            tokio::select! {
                reply = &mut answer => break reply,
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
                () = ended(&mut gone) => return Err(ErrorData::internal_error("the client has gone", None)),
                () = progress.due() => progress.tell(context).await,
            }
        };
        match reply {
            Reply::Result { result } => Ok(answered(serde_json::to_value(&*result), result.refusal.is_some())),
            Reply::Refused { refusal } => Ok(refused(&refusal)),
            other => Ok(refused(&out_of_place(&other))),
        }
    }
}

/// Ready once the client's input has ended and its calls had their time.
async fn ended(gone: &mut watch::Receiver<bool>) {
    let _ = gone.wait_for(|gone| *gone).await;
}

/// Tells a client that asked for it that its call goes on.
struct Progress {
    token: Option<rmcp::model::ProgressToken>,
    due: tokio::time::Interval,
    since: Instant,
    told: u32,
}

impl Progress {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        let since = Instant::now();
        let mut due = interval_at(since + PROGRESS.0, PROGRESS.1);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { token: context.meta.get_progress_token(), due, since, told: 0 }
    }

    async fn due(&mut self) {
        if self.token.is_none() {
            std::future::pending::<()>().await;
        }
        self.due.tick().await;
    }

    async fn tell(&mut self, context: &RequestContext<RoleServer>) {
        let Some(token) = self.token.clone() else { return };
        self.told += 1;
        let seconds = self.since.elapsed().as_secs();
        let mut note = ProgressNotificationParam::new(token, f64::from(self.told));
        note.message = Some(format!("in progress for {seconds} s; it may be waiting for a person to approve it"));
        // A client that cannot be told is noticed by the connection itself.
        let _ = context.peer.notify_progress(note).await;
    }
}

/// What rmcp drives.
struct Face<C: Connect>(Arc<Endpoint<C>>);

/// Told to the agent's model by clients that pass it on.
const INSTRUCTIONS: &str = "These tools run inside stockade. Each call is validated, judged by the project's policy, \
                            and may wait until a person has approved it. A refused call has `refusal` with a code, who \
                            refused, why, and what to do next: do that instead of repeating the call.";

impl<C: Connect> ServerHandler for Face<C> {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("stockade", env!("CARGO_PKG_VERSION"));
        info.with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let failed =
            |refusal: &Refusal| ErrorData::internal_error(refusal.to_string(), serde_json::to_value(refusal).ok());
        let joined = self.0.join(&context, false).await.map_err(|refusal| failed(&refusal))?;
        match joined.runtime.command(&joined.caller, Command::ListTools).await {
            Reply::Tools { tools } => {
                let tools: Result<Vec<Tool>, String> = tools.into_iter().map(tool_of).collect();
                let tools = tools.map_err(|error| ErrorData::internal_error(error, None))?;
                Ok(ListToolsResult::with_all_items(tools))
            }
            Reply::Refused { refusal } => Err(failed(&refusal)),
            other => Err(failed(&out_of_place(&other))),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match request_of(request, &context.meta, context.extensions.get::<wire::UnknownFields>()) {
            Ok(request) => self.0.call(request, &context).await?,
            Err(refusal) => refused(&refusal),
        };
        Ok(result.into())
    }
}

fn tool_of(info: ToolInfo) -> Result<Tool, String> {
    let schema: JsonObject = serde_json::from_str(&info.input_schema)
        .map_err(|error| format!("the schema of {} is not a JSON object: {error}", info.name))?;
    let mut description = info.description;
    if info.human_approval {
        description.push_str(" (A person approves every use.)");
    }
    Ok(Tool::new(info.name, description, schema))
}

/// The same value as text and as structure, so that whichever a client shows its model is what was journaled.
fn answered(value: Result<Value, serde_json::Error>, is_error: bool) -> CallToolResult {
    match value {
        Ok(value) if is_error => CallToolResult::structured_error(value),
        Ok(value) => CallToolResult::structured(value),
        Err(error) => {
            let reason = format!("the result could not be written as JSON: {error}");
            refused(&Refusal::new(RefusalCode::InDoubt, Authority::Journal, reason).next("Look in the journal."))
        }
    }
}

fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::structured_error(json!({ "refusal": refusal }))
}

fn out_of_place(reply: &Reply) -> Refusal {
    let name = serde_json::to_value(reply).ok().and_then(|value| value.get("reply")?.as_str().map(str::to_owned));
    let reason = format!("the runtime gave an answer that does not belong here: {}", name.unwrap_or_default());
    Refusal::new(RefusalCode::InDoubt, Authority::Journal, reason).next("Use the same stockade on both sides.")
}
