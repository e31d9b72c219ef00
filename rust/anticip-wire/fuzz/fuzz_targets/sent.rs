#![no_main]

#[path = "../invariants.rs"]
#[allow(dead_code)]
mod invariants;
#[path = "../sent.rs"]
mod sent;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = sent::run(data);
});
