//! The crate from outside, in one program: each one more would be compiled and linked by itself.

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

// The fuzz targets' own.
#[path = "../../fuzz/invariants.rs"]
#[allow(unreachable_pub)]
mod invariants;
#[path = "../../fuzz/sent.rs"]
#[allow(unreachable_pub)]
mod sent;
