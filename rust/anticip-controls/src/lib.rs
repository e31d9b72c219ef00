//! From what a model says to what goes out: leads, smoothing, shapes, silence, the performer's hand, events.
//!
//! Conventions, stated once: values are in 0..1; the eight sound parameters stand in the order of the vocabulary
//! and, of a model, at the horizons of [`HORIZONS_MS`]; times are in seconds unless the name says otherwise. Nothing
//! here looks at a clock: what comes out depends on the values and times that went in alone.
#![forbid(unsafe_code)]

mod channel;
mod crossfade;
mod desk;
mod events;
mod lead;
mod mixer;
mod presence;
mod range;
mod shaping;
mod shared;
mod smoothing;
mod vectors;

pub use channel::{Channel, Mode};
pub use crossfade::Crossfade;
pub use desk::{Desk, ModelOutputWithLeads, Out};
pub use events::{Event, LastMoment, Trigger};
pub use lead::{Lead, Trust};
pub use mixer::{Mixer, ModelOutput, RangeSample};
pub use presence::{Presence, Silence};
pub use range::{RESTLESS, Range, STRETCHED, Span};
pub use shaping::{Shape, Shaper};
pub use shared::Shared;
pub use smoothing::{Smoother, Smoothing};
pub use vectors::{
    BIN_MS, Forecast, HORIZONS_MS, LOUDNESS, NEUTRAL, PARAMETER_COUNT, Parameters, Reach, SCALAR_COUNT,
    at_lead, scalar_mapping,
};

/// Kinds of event.
pub const EVENT_COUNT: usize = 2;
