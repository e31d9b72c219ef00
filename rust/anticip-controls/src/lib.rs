//! From model output to control values: leads, smoothing, shaping, fades on signal loss, freeze and stop,
//! events.
//!
//! Conventions: values are in 0..1. The eight sound parameters are in vocabulary order; model forecasts hold
//! them at the horizons [`HORIZONS_MS`]. Times are in seconds unless the name says otherwise. Nothing here
//! reads a clock: outputs depend only on the values and times passed in.
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
pub use range::{MAX_STILL, Range, STRETCHED, Span};
pub use shaping::{Shape, Shaper};
pub use shared::Shared;
pub use smoothing::{Smoother, Smoothing};
pub use vectors::{
    BIN_COUNT, BIN_MS, Forecast, HORIZONS_MS, LOUDNESS, NEUTRAL, PARAMETER_COUNT, Parameters, Reach,
    SCALAR_COUNT, at_lead, scalar_mapping,
};

/// Number of event kinds.
pub const EVENT_COUNT: usize = 2;
