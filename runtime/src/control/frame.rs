//! Frames: four bytes of length, most significant first, then that many bytes of JSON. Nothing a peer sends makes a
//! reader take more memory than it has been sent, or more than the bound.

use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::command::{Command, Hello, Reply};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What a client sends after its [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "frames are made once and read once")]
pub(crate) enum FromClient {
    /// A command; the answer carries the same id.
    Request {
        /// The client's own number for it, not in use on this connection.
        id: u64,
        /// What is asked.
        command: Command,
    },
    /// The answer to a request is no longer wanted.
    Cancel {
        /// Its number.
        id: u64,
    },
}

/// What a server sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "frames are made once and written once")]
pub(crate) enum FromServer {
    /// The answer to a [`Hello`].
    Welcome {
        /// Version of the vocabulary.
        protocol: u32,
    },
    /// The answer to a request.
    Reply {
        /// The request's number.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// The last frame before the server closes.
    Bye {
        /// Why.
        reason: String,
    },
}

/// A frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is larger than its reader takes.
    #[error("a frame of {bytes} bytes is larger than the {most} bytes allowed")]
    TooLarge {
        /// Its length.
        bytes: u64,
        /// The bound.
        most: usize,
    },
    /// It is not what belongs here.
    #[error("a frame is not what belongs here: {0}")]
    Malformed(String),
    /// The connection ended inside a frame.
    #[error("the connection ended inside a frame")]
    Torn,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(std::io::Error),
}

/// Bytes read at a time, so that a length alone reserves nothing.
const STEP: usize = 64 * 1024;

/// Reads one frame; `None` when the peer ended between frames.
pub(crate) async fn read<T: DeserializeOwned>(
    reader: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Result<Option<T>, FrameError> {
    let mut length = [0; 4];
    let mut filled = 0;
    while filled < length.len() {
        match reader.read(length.get_mut(filled..).unwrap_or_default()).await.map_err(FrameError::Io)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(FrameError::Torn),
            more => filled += more,
        }
    }
    let length = u32::from_be_bytes(length);
    let wanted = usize::try_from(length).unwrap_or(usize::MAX);
    if wanted > most {
        return Err(FrameError::TooLarge { bytes: u64::from(length), most });
    }
    let mut bytes = Vec::with_capacity(wanted.min(STEP));
    let mut body = reader.take(u64::from(length));
    while bytes.len() < wanted {
        if body.read_buf(&mut bytes).await.map_err(FrameError::Io)? == 0 {
            return Err(FrameError::Torn);
        }
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| FrameError::Malformed(error.to_string()))
}

/// The bytes of one frame.
pub(crate) fn encode(value: &impl Serialize, most: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value).map_err(|error| FrameError::Malformed(error.to_string()))?;
    let length = bytes.len() - 4;
    let too_large = || FrameError::TooLarge { bytes: length as u64, most };
    if length > most {
        return Err(too_large());
    }
    let prefix = u32::try_from(length).map_err(|_range| too_large())?.to_be_bytes();
    for (slot, byte) in bytes.iter_mut().zip(prefix) {
        *slot = byte;
    }
    Ok(bytes)
}

/// Writes one frame.
pub(crate) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
    most: usize,
) -> Result<(), FrameError> {
    writer.write_all(&encode(value, most)?).await.map_err(FrameError::Io)
}

/// Largest [`Hello`], bytes: it comes before anyone is known.
pub(crate) const HELLO_BYTES: usize = 16 * 1024;

/// Reads the first frame of a connection.
pub(crate) async fn read_hello(reader: &mut (impl AsyncRead + Unpin)) -> Result<Option<Hello>, FrameError> {
    read(reader, HELLO_BYTES).await
}
