//! Memory use of a rehearsal: bytes that stay allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anticip_memory::{Follower, MOMENTS_PER_HOUR, Memory, Rotations};
use anticip_motion::CanonicalPose;

use crate::following::Movement;

struct Counting;

thread_local! {
    // Per thread, because other tests run in parallel.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system allocator unchanged; the counter is a const-initialised
// thread-local without a destructor, so counting does not allocate. The other methods call these two by
// default.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of `make`, and the number of bytes that stay allocated with it.
fn allocated<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let before = BYTES.get();
    let value = make();
    (value, BYTES.get().wrapping_sub(before))
}

/// A tenth of an hour in ten takes: everything grows with the frames, so an hour costs ten times as much.
#[test]
fn an_hour_of_rehearsal_is_followed_and_recalled_in_fifty_megabytes() {
    let takes: Vec<Vec<CanonicalPose>> = (0..10).map(|n| Movement(n).take(36.0)).collect();
    let room = MOMENTS_PER_HOUR / 10;
    let (_, empty) = allocated(|| Memory::new(1).expect("a capacity"));
    let (mut memory, moments) = allocated(|| {
        let mut memory = Memory::new(room).expect("a capacity");
        for (n, take) in takes.iter().enumerate() {
            let take: Vec<Rotations> = take.iter().map(|pose| pose.map(|q| q.map(f64::from))).collect();
            memory.rehearse(&n.to_string(), &take).expect("room");
        }
        memory
    });
    let (follower, tables) = allocated(|| Follower::new(&takes).expect("takes"));
    assert!(memory.store().len() > 9 * room / 10 && follower.poses(9).is_some());
    let hour = [moments - empty, tables].map(|bytes| 10 * bytes);
    println!("an hour: {} bytes of moments, {} that follow", hour[0], hour[1]);
    assert!(hour.iter().sum::<usize>() <= 50_000_000, "{hour:?}");
}
