//! Panics that stay inside: an emulator that fails over a worker's bytes fails alone.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Something panicked inside [`contained`]. What it worked on is in an unknown state and must be thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// Runs `work`; a panic in it ends it and nothing else. The panic hook of [`crate::outer`] stays silent meanwhile,
/// because printing would write over the screen.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Failed> {
    let before = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(before);
    result.map_err(|_panic| Failed)
}

/// Whether the current thread is inside [`contained`].
#[must_use]
pub fn is_contained() -> bool {
    INSIDE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_is_a_value_outside() {
        assert_eq!(contained(|| 7), Ok(7));
        let failed = contained(|| {
            assert!(is_contained());
            panic!("inside");
        });
        assert_eq!(failed, Err::<(), _>(Failed));
        assert!(!is_contained());
    }
}
