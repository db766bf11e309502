//! Being asked to end.

use tokio::signal::unix::{SignalKind, signal};

/// Ready when the program is asked to end: SIGINT, SIGTERM or SIGHUP.
pub(crate) async fn asked_to_end() {
    let next = async |kind| match signal(kind) {
        Ok(mut stream) => {
            stream.recv().await;
        }
        // A signal that cannot be watched has its default effect, which is to end the program.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = next(SignalKind::interrupt()) => {}
        () = next(SignalKind::terminate()) => {}
        () = next(SignalKind::hangup()) => {}
    }
}
