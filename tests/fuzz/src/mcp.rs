//! What an MCP client sends.

use stockade_protocol::command::{Command, Reply};
use stockade_protocol::refusal::{Authority, Refusal, RefusalCode};
use stockade_runtime::control::{Caller, Serve};
use stockade_runtime::endpoint::mcp::{Connect, serve};
use tokio::io::AsyncReadExt as _;

/// There is no runtime: every call is refused, and the connection goes on.
struct Nothing;

#[derive(Clone)]
enum Never {}

impl Serve for Never {
    async fn command(&self, _: &Caller, _: Command) -> Reply {
        match *self {}
    }

    async fn caller_gone(&self, _: &Caller) {
        match *self {}
    }
}

impl Connect for Nothing {
    type Runtime = Never;

    async fn connect(&self, _: &str) -> Result<(Never, Caller), Refusal> {
        Err(Refusal::new(RefusalCode::Unavailable, Authority::Tier, "there is nothing here"))
    }

    fn is_open(&self, runtime: &Never) -> bool {
        match *runtime {}
    }
}

/// Everything a client says on its connection. It ends when the input does, and what was answered is JSON, one object a
/// line.
pub(crate) fn mcp(bytes: &[u8]) {
    answers(bytes);
}

/// How many answers there were.
fn answers(bytes: &[u8]) -> usize {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let input = std::io::Cursor::new(bytes.to_vec());
    let answers = tokio.expect("a runtime can be made").block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let served = tokio::spawn(serve(Nothing, input, theirs));
        let (mut answers, mut ours) = (Vec::new(), ours);
        ours.read_to_end(&mut answers).await.expect("the answers can be read");
        drop(served.await.expect("serving does not panic"));
        answers
    });
    let mut count = 0;
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: serde_json::Value = serde_json::from_slice(line).expect("an answer is JSON");
        assert!(value.is_object() || value.is_array(), "an answer is no message");
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_answered() {
        assert_eq!(answers(include_bytes!("../corpus/mcp/list")), 2);
        assert_eq!(answers(b""), 0);
    }
}
