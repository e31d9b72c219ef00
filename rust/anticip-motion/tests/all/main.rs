//! The crate from outside, in one program: each one more would be compiled and linked by itself.

mod common;
mod faults;
mod features;
mod frame_grid;
mod live;
mod noise;
mod resample;
mod retarget;
mod senders;
mod tempo;
