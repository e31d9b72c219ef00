//! The crate from outside, in one program: each one more would be compiled and linked by itself.

mod common;
mod faults;
mod features;
mod live;
mod noise;
mod resample;
mod retarget;
mod senders;
mod slots;
mod tempo;
