//! After construction nothing is allocated or freed: counted by the allocator itself.
#![allow(missing_docs)]

#[path = "all/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anticip_synth::{PRESETS, Voice};

struct Counting;

thread_local! {
    // Of this thread: the one that runs the tests allocates when it likes.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated_after_construction() {
    let mut voice = Voice::with(48_000.0, &support::settings(0, None)).unwrap();
    let mut block = vec![0.0; 960];
    let before = CALLS.get();
    for n in 0..400_usize {
        let level = (n % 7) as f32 / 6.0;
        voice.params(&[level, 1.0, level, level, 1.0, level, 1.0 - level, level]);
        if n % 5 == 0 {
            voice.event(n / 5 % 2, 1.0, 0.01).unwrap();
        }
        if n % 20 == 0 {
            voice.preset(PRESETS[n / 20 % PRESETS.len()].name).unwrap();
        }
        if n == 300 {
            voice.fade(0.2, 0.1).unwrap();
        }
        if n == 200 {
            voice.reset();
        }
        voice.render(&mut block).unwrap();
    }
    assert_eq!(CALLS.get(), before);
}
