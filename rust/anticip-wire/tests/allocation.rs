//! After the first datagram, decoding allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anticip_wire::mocopi::{self, MocopiPacket, Sender};
use anticip_wire::native::{self, NativePacket};
use anticip_wire::vmc::{self, VmcAssembler};
use anticip_wire::{Joint, PoseUpdate};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; only a thread-local counter is touched.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(mut work: impl FnMut()) -> usize {
    work();
    let before = COUNT.with(Cell::get);
    (0..100).for_each(|_| work());
    COUNT.with(Cell::get) - before
}

#[test]
fn hot_paths_do_not_allocate() {
    let joints = |count| {
        let joints = (0..count)
            .map(|id| Joint {
                id,
                rotation: [1.0, 0.0, 0.0, 0.0],
                position: [0.0, 0.1, 0.0],
                fresh: true,
            })
            .collect();
        PoseUpdate {
            seq: Some(1),
            time: Some(2.0),
            joints,
            ..PoseUpdate::default()
        }
    };
    let mut bytes = Vec::new();
    mocopi::encode_frame(&Sender::default(), &joints(27), 0, None, &mut bytes).unwrap();
    let mut packet = MocopiPacket::default();
    assert_eq!(count(|| assert!(mocopi::decode(&bytes, &mut packet).is_ok())), 0);
    assert_eq!(
        count(|| assert!(mocopi::decode(&bytes[..900], &mut packet).is_err())),
        0
    );

    let mut bundle = Vec::new();
    vmc::encode_frame(&joints(55), &mut bundle).unwrap();
    let mut assembler = VmcAssembler::new();
    assert_eq!(
        count(|| assert_eq!(assembler.feed(&bundle).map(<[PoseUpdate]>::len), Ok(1))),
        0
    );
    assert_eq!(count(|| assert!(assembler.feed(&bundle[..900]).is_err())), 0);

    let mut own = Vec::new();
    native::encode_frame(1, 2.0, &[[1.0, 0.0, 0.0, 0.0]; 22], None, &mut own).unwrap();
    let mut packet = NativePacket::default();
    assert_eq!(count(|| assert!(native::decode(&own, &mut packet).is_ok())), 0);
    assert_eq!(
        count(|| assert!(native::decode(&own[..90], &mut packet).is_err())),
        0
    );
    // The counter counts.
    assert_eq!(count(|| drop(std::hint::black_box(vec![0u8; 10]))), 100);
}
