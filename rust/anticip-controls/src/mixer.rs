//! The desk with what is learned of the show: how far ahead it is read, and in whose range.

use crate::desk::{Desk, ModelOutputWithLeads, Out};
use crate::events::Event;
use crate::lead::{Lead, Trust};
use crate::range::Range;
use crate::shared::Shared;
use crate::vectors::{Forecast, Parameters, Reach, SCALAR_COUNT};
use crate::{EVENT_COUNT, vectors};

/// What a model says of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOutput {
    /// Parameters at the horizons.
    pub forecast: Forecast,
    /// Of each event; at least a bin each.
    pub hazards: [Vec<f64>; EVENT_COUNT],
    /// The commitment gate.
    pub gate: f64,
}

/// Control values of one performer. What is learned of a frame is learned when it has left.
#[derive(Debug, Clone)]
pub struct Mixer {
    /// The way of a frame.
    pub desk: Desk,
    /// How far ahead the model is read.
    pub lead: Shared<Lead>,
    /// What share of each parameter is foreseen; `None`: nobody says.
    pub trust: Option<Trust>,
    /// Whose range it is stretched to; `None`: the model's own scale.
    pub range: Option<Shared<Range>>,
    /// What the last frame says of the range: the parameters now, the activity, seconds.
    range_sample: Option<RangeSample>,
}

/// The parameters of a moment, how much the body moved in it, and how many seconds it stands for.
pub type RangeSample = (Parameters, f64, f64);

impl Mixer {
    /// Nothing has been heard.
    #[must_use]
    pub fn new(desk: Desk, lead: Shared<Lead>) -> Self {
        Self {
            desk,
            lead,
            trust: None,
            range: None,
            range_sample: None,
        }
    }

    /// A frame, `dt` seconds of source time after the last; see [`Desk::play`]. Of a `guessed` one nothing is learned.
    pub fn play(
        &mut self,
        model_output: Option<&ModelOutput>,
        scalars: &[f64; SCALAR_COUNT],
        taught: Option<&[f64]>,
        activity: f64,
        dt: f64,
        guessed: bool,
    ) -> Out {
        if let Some(model_output) = model_output.filter(|_| !guessed) {
            self.overhear(model_output, activity, dt);
        }
        let reaches = self.reaches();
        let output = model_output.map(|model_output| self.read(model_output, &reaches));
        self.desk.play(output.as_ref(), scalars, taught, activity, dt)
    }

    /// No frame, `dt` seconds after the last call: what the newest one's model says of now; see [`Desk::bridge`].
    pub fn bridge(
        &mut self,
        model_output: Option<&ModelOutput>,
        away: f64,
        dt: f64,
    ) -> (Parameters, Vec<Event>) {
        let reaches = self.reaches();
        let output = model_output.map(|model_output| self.read(model_output, &reaches));
        self.desk.bridge(output.as_ref(), away, dt)
    }

    /// Notes what a frame says of the performer's range, `dt` seconds after the last that said so.
    pub fn overhear(&mut self, model_output: &ModelOutput, activity: f64, dt: f64) {
        self.learn_range();
        if !self.desk.bypass {
            self.range_sample = Some((vectors::now(&model_output.forecast), activity, dt));
        }
    }

    /// What the last frame says of the performer's range and of the lead: for the time after it has been sent.
    pub fn learn(&mut self) {
        self.learn_range();
        let amount = self.desk.smoothing();
        self.lead.with(|lead| lead.learn(amount, self.trust.as_ref()));
    }

    /// What has not been learned yet.
    #[must_use]
    pub fn range_sample(&self) -> Option<&RangeSample> {
        self.range_sample.as_ref()
    }

    fn learn_range(&mut self) {
        if let (Some((now, activity, dt)), Some(range)) = (self.range_sample.take(), &self.range) {
            range.with(|range| range.learn(&now, activity, dt));
        }
    }

    fn reaches(&self) -> Vec<Reach> {
        let reaches = self
            .range
            .as_ref()
            .map(|range| range.with(|range| range.reaches()));
        reaches.map_or_else(Vec::new, Vec::from)
    }

    fn read<'a>(&self, model_output: &ModelOutput, reaches: &'a [Reach]) -> ModelOutputWithLeads<'a> {
        let (leads_ms, way_ms) = self.lead.with(|lead| (lead.leads(), lead.way_ms()));
        ModelOutputWithLeads {
            forecast: model_output.forecast,
            hazards: model_output.hazards.clone(),
            gate: model_output.gate,
            leads_ms,
            way_ms,
            reaches,
        }
    }
}
