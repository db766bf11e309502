//! The master side of a worker's terminal.

use crate::sys;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The master side of a worker's terminal. Clones share the terminal: one task may read from one clone while another
/// writes to a second, but two readers (or two writers) at once would steal each other's wake-ups.
///
/// Reading ends (`Ok(0)`) when the worker has closed its side. When the last clone is dropped the worker's terminal
/// hangs up.
#[derive(Debug, Clone)]
pub struct PtyMaster {
    descriptor: Arc<AsyncFd<OwnedFd>>,
}

impl PtyMaster {
    /// Takes over a descriptor. Must be called inside a runtime.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        sys::set_nonblocking(&descriptor)?;
        Ok(Self { descriptor: Arc::new(sys::watch(descriptor)?) })
    }

    /// Sets the size; the worker gets SIGWINCH when it changed.
    ///
    /// # Errors
    /// When a side is zero, or the kernel refuses.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        if columns == 0 || rows == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a terminal has at least one column and one row"));
        }
        sys::set_window_size(self.descriptor.get_ref().as_fd(), columns, rows)
    }
}

impl AsyncRead for PtyMaster {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(cx))?;
            let unfilled = buf.initialize_unfilled();
            match guard.try_io(|descriptor| Ok(nix::unistd::read(descriptor.get_ref(), unfilled)?)) {
                Ok(Ok(count)) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // The other side is closed and everything it wrote has been read.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_not_ready) => {}
            }
        }
    }
}

impl AsyncWrite for PtyMaster {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_write_ready(cx))?;
            match guard.try_io(|descriptor| Ok(nix::unistd::write(descriptor.get_ref(), bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(result) => return Poll::Ready(result),
                Err(_not_ready) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
