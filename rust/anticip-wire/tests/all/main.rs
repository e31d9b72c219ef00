//! Integration tests of the crate, in one binary to save compiling and linking several.

mod axis;
mod common;
mod fuzz;
mod mocopi;
mod native;
mod natnet;
mod recording;
mod rokoko;
mod vmc;
mod vmc_reference;
mod vrchat;
mod xsens;

// Shared with the fuzz targets.
#[path = "../../fuzz/invariants.rs"]
#[allow(unreachable_pub)]
mod invariants;
#[path = "../../fuzz/sent.rs"]
#[allow(unreachable_pub)]
mod sent;
