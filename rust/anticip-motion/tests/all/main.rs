//! Tests of the public interface, in one program because each further one is compiled and linked separately.

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
