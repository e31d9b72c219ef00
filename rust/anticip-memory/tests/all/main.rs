//! All integration tests in one program, which compiles and links faster than one each.

mod cost;
#[path = "../../../anticip-wire/tests/counting/mod.rs"]
mod counting;
mod following;
mod memory;
mod spotting;
