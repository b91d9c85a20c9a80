//! The work that is really done, counted where it is done: bytes read and bytes built.
//!
//! Only tests count. The cost audit compares these figures with what was paid, so the
//! primitives that loop over bytes call this module, and know nothing of any account.

/// Bytes that a primitive read or compared.
#[inline]
pub(crate) fn read(_bytes: usize) {
    #[cfg(test)]
    count::add(&count::READ, _bytes);
}

/// Bytes that a primitive built.
#[inline]
pub(crate) fn built(_bytes: usize) {
    #[cfg(test)]
    count::add(&count::BUILT, _bytes);
}

#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;
    use std::thread::LocalKey;

    thread_local! {
        pub(super) static READ: Cell<u64> = const { Cell::new(0) };
        pub(super) static BUILT: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn add(counter: &'static LocalKey<Cell<u64>>, bytes: usize) {
        counter.set(counter.get() + bytes as u64);
    }

    /// Bytes read and built by this thread since the last call.
    pub(crate) fn take() -> (u64, u64) {
        (READ.replace(0), BUILT.replace(0))
    }
}
