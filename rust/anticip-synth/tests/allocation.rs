//! Nothing is allocated or freed after construction; checked by a counting allocator.
#![allow(missing_docs)]

#[path = "../../anticip-wire/tests/counting/mod.rs"]
mod counting;
#[path = "all/support/mod.rs"]
mod support;

use anticip_synth::{PRESETS, Voice};

#[test]
fn nothing_is_allocated_after_construction() {
    let mut voice = Voice::with(48_000.0, &support::settings(0, None)).unwrap();
    let mut block = vec![0.0; 960];
    let play = || {
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
    };
    assert_eq!(counting::allocations(play), 0);
}
