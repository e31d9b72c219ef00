//! The built-in voice: eight sound parameters and two events in, stereo samples out.
//!
//! [`Voice`] holds a set of instruments, the [`PRESETS`], of which one plays and another can take over at any
//! time. What they share: smoothed parameters, the notes ([`Harmony`]), the rhythm, panning and loudness, an
//! eight-line feedback delay network as the room, and a look-ahead limiter that keeps every sample at or
//! below [`CEILING`] (-2 dBFS). An onset triggers an accent, a phrase changes the chord and swells.
//!
//! Conventions: parameters are linear 0..1 in the order of [`PARAMETERS`], events in the order of [`EVENTS`];
//! samples are interleaved stereo `f32`, left first; times are seconds, frequencies Hz.
//!
//! * **Stream equals batch.** Sound is rendered in frames of [`FRAME`] samples on a fixed grid of the
//!   absolute sample count; settings take effect at the next frame that has not been rendered. The caller's
//!   block sizes change nothing.
//! * **Real time.** [`Voice::new`] allocates everything; [`Voice::render`], [`Voice::set`], [`Voice::event`]
//!   and [`Voice::reset`] neither allocate nor lock.
//! * **Deterministic.** All randomness comes from a counter hashed with the seed.
//! * **Degenerate input.** A parameter that is not a number is ignored and counted ([`Voice::ignored`]); one
//!   outside 0..1 is clamped.
#![forbid(unsafe_code)]

mod bells;
mod clock;
mod control;
mod error;
mod harmony;
mod kit;
mod limiter;
mod manner;
mod modes;
mod notes;
mod pad;
mod params;
mod presets;
mod queue;
mod room;
mod samples;
mod strike;
mod strings;
mod stroke;
mod tone;
mod voice;

pub use control::FRAME;
pub use error::SynthError;
pub use harmony::{Harmony, SCALES};
pub use limiter::CEILING;
pub use params::{EVENTS, Event, LIMBS, PARAMETERS, Parameter, Settings};
pub use presets::{PRESETS, Preset};
pub use samples::Samples;
pub use voice::Voice;
