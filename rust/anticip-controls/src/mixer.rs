//! A [`Desk`] together with what is learned during the show: the leads and the performer's range.

use crate::desk::{Desk, ModelOutputWithLeads, Out};
use crate::lead::{Lead, Trust};
use crate::range::{Range, STRETCHED};
use crate::shared::Shared;
use crate::vectors::{BIN_COUNT, Forecast, Parameters, Reach, SCALAR_COUNT};
use crate::{EVENT_COUNT, vectors};

/// Model output for one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelOutput {
    /// Parameters at each horizon.
    pub forecast: Forecast,
    /// Hazard of each bin, per event kind.
    pub hazards: [[f64; BIN_COUNT]; EVENT_COUNT],
    /// Value of the commitment gate.
    pub gate: f64,
}

/// Control values of one performer. Learning from a frame happens after the frame has been sent.
#[derive(Debug, Clone)]
pub struct Mixer {
    /// Turns frames into outputs.
    pub desk: Desk,
    /// How far ahead the model output is read.
    pub lead: Shared<Lead>,
    /// Predictable fraction of each parameter; `None` if unknown.
    pub trust: Option<Trust>,
    /// The performer's range; `None` leaves values on the model's own scale.
    pub range: Option<Shared<Range>>,
    /// What the last frame adds to the range, not yet learned.
    range_sample: Option<RangeSample>,
}

/// Parameters at horizon 0, activity, and the number of seconds that the sample counts for.
pub type RangeSample = (Parameters, f64, f64);

impl Mixer {
    /// A mixer that has received no frames.
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

    /// The output for a frame, `dt` seconds of source time after the last; see [`Desk::play`]. Nothing is
    /// learned from a `guessed` frame.
    pub fn play(
        &mut self,
        model_output: Option<&ModelOutput>,
        scalars: &[f64; SCALAR_COUNT],
        mapped: Option<&[f64]>,
        activity: f64,
        dt: f64,
        guessed: bool,
    ) -> Out {
        if let Some(model_output) = model_output.filter(|_| !guessed) {
            self.observe(model_output, activity, dt);
        }
        let reaches = self.reaches();
        let output = model_output.map(|model_output| self.with_leads(model_output, reaches.as_slice()));
        self.desk.play(output.as_ref(), scalars, mapped, activity, dt)
    }

    /// The output without a new frame, `dt` seconds after the last call, from the newest model output; see
    /// [`Desk::bridge`].
    pub fn bridge(&mut self, model_output: Option<&ModelOutput>, since_step_s: f64, dt: f64) -> Out {
        let reaches = self.reaches();
        let output = model_output.map(|model_output| self.with_leads(model_output, reaches.as_slice()));
        self.desk.bridge(output.as_ref(), since_step_s, dt)
    }

    /// Stores what a frame adds to the performer's range, `dt` seconds after the last call.
    pub fn observe(&mut self, model_output: &ModelOutput, activity: f64, dt: f64) {
        self.learn_range();
        if !self.desk.bypass {
            self.range_sample = Some((vectors::now(&model_output.forecast), activity, dt));
        }
    }

    /// Learns range and leads from the last frame; call it after the frame has been sent.
    pub fn learn(&mut self) {
        self.learn_range();
        let amount = self.desk.smoothing();
        self.lead.with(|lead| lead.step(amount, self.trust.as_ref()));
    }

    /// The sample that has not been learned from yet.
    #[must_use]
    pub fn range_sample(&self) -> Option<&RangeSample> {
        self.range_sample.as_ref()
    }

    fn learn_range(&mut self) {
        if let (Some((now, activity, dt)), Some(range)) = (self.range_sample.take(), &self.range) {
            range.with(|range| range.learn(&now, activity, dt));
        }
    }

    fn reaches(&self) -> Option<[Reach; STRETCHED.len()]> {
        let range = self.range.as_ref()?;
        Some(range.with(|range| range.reaches()))
    }

    fn with_leads<'a>(
        &self,
        model_output: &'a ModelOutput,
        reaches: &'a [[Reach; STRETCHED.len()]],
    ) -> ModelOutputWithLeads<'a> {
        let (leads_ms, event_lead_ms) = self
            .lead
            .with(|lead| (lead.leads_of_frame(), lead.event_lead_ms()));
        ModelOutputWithLeads {
            forecast: model_output.forecast,
            hazards: model_output.hazards.each_ref().map(<[f64; BIN_COUNT]>::as_slice),
            gate: model_output.gate,
            leads_ms,
            event_lead_ms,
            reaches: reaches.as_flattened(),
        }
    }
}
