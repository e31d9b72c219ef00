//! A counting allocator, for tests of what code allocates.
#![allow(dead_code, reason = "each test binary counts calls or bytes")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    // Per thread, as other tests and the test runner allocate too.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are constant-initialised thread-locals
// without a destructor, so counting allocates nothing itself. The other methods call these two by default.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations and deallocations of `work`.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// The result of `make`, and the number of bytes that stay allocated with it.
pub(crate) fn bytes_kept<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = BYTES.get();
    let value = make();
    (value, BYTES.get().wrapping_sub(before))
}

#[test]
fn the_counters_count() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 2);
    assert_eq!(bytes_kept(|| vec![1_u8; 5].into_boxed_slice()).1, 5);
}
