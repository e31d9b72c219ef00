//! All fuzz targets in one binary; the environment variable `FUZZ` names the one to run (a folder of `seeds`).
#![no_main]

use std::sync::LazyLock;

#[path = "../invariants.rs"]
mod invariants;
#[path = "../sent.rs"]
mod sent;

static TARGET: LazyLock<sent::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ").unwrap_or_default();
    let known = sent::TARGETS.iter().find(|(known, _)| *known == name);
    known.expect("FUZZ: the name of a folder of seeds").1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    TARGET(data);
    let _ = anticip_wire::recognise(data);
});
