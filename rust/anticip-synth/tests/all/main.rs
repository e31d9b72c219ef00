//! All integration tests in one program, which compiles and links faster than one each.

mod portraits;
mod support;
mod voice;
