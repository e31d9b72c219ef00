//! The built-in voice: eight sound parameters and two events in, stereo samples out.
//!
//! [`Voice`] is a small pad instrument on fundsp's oscillators and filters: six detuned saws glide through a
//! scale, are roughened, filtered and pulsed; bells are strewn over them at a rate of their own; an onset strikes,
//! a phrase changes the chord and swells; an eight-line feedback delay network is the room; a look-ahead limiter
//! keeps every sample at or below [`CEILING`] (-1 dBFS).
//!
//! Conventions: parameters are linear 0..1 in the order of [`PARAMETERS`], events in the order of [`EVENTS`];
//! samples are interleaved stereo `f32`, left first; times are seconds, frequencies Hz.
//!
//! * **Stream equals batch.** Sound is made in frames of [`FRAME`] samples that lie on a fixed grid of the absolute
//!   sample count; what is set takes effect at the next frame that has not been begun. How the caller cuts its blocks
//!   changes nothing.
//! * **Real time.** [`Voice::new`] allocates everything; [`Voice::render`], [`Voice::set`], [`Voice::event`] and
//!   [`Voice::reset`] neither allocate nor lock.
//! * **Deterministic.** All chance comes from a counter hashed with the seed.
//! * **Degenerate input.** A parameter that is not a number is ignored and counted ([`Voice::ignored`]); one outside
//!   0..1 is clamped.
#![forbid(unsafe_code)]

mod bells;
mod clock;
mod control;
mod error;
mod limiter;
mod pad;
mod params;
mod room;
mod strike;
mod voice;

pub use control::FRAME;
pub use error::SynthError;
pub use limiter::CEILING;
pub use params::{EVENTS, Event, PARAMETERS, Parameter};
pub use voice::Voice;
