//! All integration tests in one program, which compiles and links faster than one each.

mod cost;
mod following;
mod memory;
mod spotting;
