//! The thread that writes frames, so that a slow terminal never holds up the loop.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Writes frames one at a time. While one is in flight the loop draws none: what is shown is made from the newest
/// state, so nothing is lost by drawing less often.
#[derive(Debug)]
pub(crate) struct Writer {
    frames: SyncSender<Vec<u8>>,
    busy: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl Writer {
    /// Starts the thread. `written` is called after each frame, with the error that ended the thread if there was one.
    pub(crate) fn spawn(
        mut output: impl Write + Send + 'static,
        written: impl Fn(io::Result<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let (frames, queue) = sync_channel::<Vec<u8>>(1);
        let (end, ended) = sync_channel(0);
        let busy = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&busy);
        thread::Builder::new().name("stockade-writer".to_owned()).spawn(move || {
            // Dropped with the thread, which tells `finish`.
            let _end: SyncSender<()> = end;
            for frame in queue {
                let result = write(&mut output, &frame);
                let failed = result.is_err();
                flag.store(false, Ordering::Release);
                written(result);
                if failed {
                    break;
                }
            }
        })?;
        Ok(Self { frames, busy, ended })
    }

    /// Whether a frame is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Takes a frame if none is in flight; whether it was taken.
    pub(crate) fn offer(&self, frame: Vec<u8>) -> bool {
        if self.busy.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.frames.try_send(frame).is_ok()
    }

    /// Ends the thread; whether the frame in flight was written within `patience`.
    pub(crate) fn finish(self, patience: Duration) -> bool {
        drop(self.frames);
        self.ended.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    }
}

fn write(output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Someone who shares the terminal made it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Takes bytes only when the test lets it.
    struct Slow {
        gate: Receiver<()>,
        out: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.gate.recv().map_err(|_closed| io::ErrorKind::BrokenPipe)?;
            self.out.send(bytes.to_vec()).map_err(|_closed| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn one_frame_is_in_flight_and_the_loop_is_never_held() {
        let ((open, gate), (out, got), (told, heard)) = (channel(), channel(), channel());
        let writer = Writer::spawn(Slow { gate, out }, move |result| _ = told.send(result.is_ok())).expect("a thread");
        assert!(writer.offer(b"one".to_vec()));
        assert!(writer.is_busy());
        assert!(!writer.offer(b"two".to_vec()), "the terminal has not taken the first");
        open.send(()).expect("open");
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(true));
        assert!(!writer.is_busy());
        assert!(writer.offer(b"three".to_vec()));
        open.send(()).expect("open");
        assert!(writer.finish(PATIENCE));
        assert_eq!(got.try_iter().collect::<Vec<_>>(), [b"one".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn a_stalled_terminal_does_not_hold_up_the_end_and_a_lost_one_is_reported() {
        let ((open, gate), (out, _got), (told, heard)) = (channel::<()>(), channel(), channel());
        let writer = Writer::spawn(Slow { gate, out }, move |result| _ = told.send(result.is_ok())).expect("a thread");
        assert!(writer.offer(b"one".to_vec()));
        assert!(!writer.finish(Duration::from_millis(1)));
        drop(open);
        assert_eq!(heard.recv_timeout(PATIENCE), Ok(false));
    }
}
