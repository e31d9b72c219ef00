//! How far ahead of now the parameters are read: a fixed time, or the measured delay from movement to sound.
//!
//! Leads depend only on frames and commands, so that a replay gives the same bits: sound delays measured
//! while playing arrive as commands, which are recorded.

use crate::vectors::{HORIZONS_MS, PARAMETER_COUNT, Parameters};

/// How late the model's loudness at horizon 0 is where movement does not repeat, in milliseconds: 20 to 40 in
/// the clips of `bench sound` (docs/latency.md), none in walking.
const MODEL_LAG_MS: f64 = 30.0;
/// A parameter is read at its full lead while its predictable fraction is at least this, and at
/// proportionally less below it.
const FULL_LEAD_TRUST: f64 = 0.5;
/// Maximum change of a lead, in milliseconds per frame.
const MAX_STEP_MS: f64 = 0.5;
/// Time constant, in frames, of the average age of frames.
const AVERAGE_FRAMES: f64 = 100.0;
/// The age in use is updated only when the average differs by more than this, so that it rarely changes.
const MIN_AGE_CHANGE_MS: f64 = 3.0;
const MAX_LEAD_MS: f64 = HORIZONS_MS[HORIZONS_MS.len() - 1];
/// Horizons for which trust is given.
const TRUST_HORIZONS_MS: [f64; 3] = [HORIZONS_MS[2], HORIZONS_MS[3], HORIZONS_MS[4]];

/// The predictable fraction of each parameter at 100, 200 and 400 ms.
pub type Trust = [[f32; TRUST_HORIZONS_MS.len()]; PARAMETER_COUNT];

/// The lead of each parameter, 0 to 400 ms.
///
/// An automatic lead is the sum of the frame's age when sent, the delay from sending to sound, and the lags
/// of suit, model and smoothing; it is reduced where the model cannot predict that far ahead.
#[derive(Debug, Clone)]
pub struct Lead {
    /// 0 to 400 ms; `None` if automatic.
    fixed_ms: Option<f64>,
    /// Delay from sending to sound, in ms.
    pub sound_ms: f64,
    delay_ms: f64,
    /// Lags of the smoothing, in ms.
    lags_ms: Parameters,
    /// Age of the frame that leaves, in ms.
    frame_age_ms: f64,
    age_ms: f64,
    average_age_ms: f64,
    current_ms: Option<Parameters>,
    /// What the current leads contain of the average age, in ms; changes as slowly as they do.
    contained_age_ms: f64,
}

impl Lead {
    /// `delay_ms` is the lag of the suit, `lags_ms` the lag of each parameter's smoothing.
    #[must_use]
    pub fn new(fixed_ms: Option<f64>, lags_ms: Parameters, sound_ms: f64, delay_ms: f64) -> Self {
        let mut lead = Self {
            fixed_ms: None,
            sound_ms,
            delay_ms,
            lags_ms,
            frame_age_ms: 0.0,
            age_ms: 0.0,
            average_age_ms: 0.0,
            current_ms: None,
            contained_age_ms: 0.0,
        };
        lead.set(fixed_ms);
        lead
    }

    /// The lead set by [`Lead::set`], or `None` if automatic.
    #[must_use]
    pub fn fixed_ms(&self) -> Option<f64> {
        self.fixed_ms
    }

    /// Sets a fixed lead from the next frame on, or an automatic one.
    pub fn set(&mut self, ms: Option<f64>) {
        self.fixed_ms = ms;
        if let Some(ms) = ms {
            self.current_ms = Some([ms; PARAMETER_COUNT]);
            self.contained_age_ms = 0.0;
        }
    }

    /// Sets the lags of the smoothing.
    pub fn set_lags(&mut self, lags_ms: Parameters) {
        self.lags_ms = lags_ms;
    }

    /// Delay from movement to sound without smoothing and model lag: the lead of announced events.
    #[must_use]
    pub fn event_lead_ms(&self) -> f64 {
        self.fixed_ms
            .unwrap_or_else(|| (self.age_ms + self.sound_ms + self.delay_ms).min(MAX_LEAD_MS))
    }

    /// Leads of the eight parameters, in ms.
    #[must_use]
    pub fn leads(&self) -> Parameters {
        self.current_ms.unwrap_or_else(|| self.goal_ms(1.0, None))
    }

    /// How far ahead of its own time the frame that leaves is read, in ms: its lead counts from when it is sent, so
    /// its age is added, in place of the average that an automatic lead contains.
    #[must_use]
    pub fn leads_of_frame(&self) -> Parameters {
        let later_ms = self.frame_age_ms - self.contained_age_ms;
        self.leads()
            .map(|lead_ms| (lead_ms + later_ms).clamp(0.0, MAX_LEAD_MS))
    }

    /// Reports the age of a frame that leaves, in ms.
    pub fn add_age(&mut self, age_ms: f64) {
        self.set_frame_age(age_ms);
        self.average_age_ms += (self.frame_age_ms - self.average_age_ms) / AVERAGE_FRAMES;
        if (self.average_age_ms - self.age_ms).abs() > MIN_AGE_CHANGE_MS {
            self.age_ms = self.average_age_ms;
        }
    }

    /// Sets the age of a frame that leaves, in ms, where it is no measure of the source: the frame is a forecast.
    pub fn set_frame_age(&mut self, age_ms: f64) {
        // Not `clamp`, which would keep NaN.
        self.frame_age_ms = if age_ms > 0.0 {
            age_ms.min(MAX_LEAD_MS)
        } else {
            0.0
        };
    }

    /// Moves the leads towards their goal; called once per frame, after it has been sent.
    ///
    /// `amount` is the factor on smoothing; without `trust` leads are not reduced.
    pub fn step(&mut self, amount: f64, trust: Option<&Trust>) {
        if self.fixed_ms.is_none() {
            let goal_ms = self.goal_ms(amount, trust);
            let current_ms = self.current_ms.unwrap_or(goal_ms);
            let approach = |from: f64, to: f64| from + (to - from).clamp(-MAX_STEP_MS, MAX_STEP_MS);
            self.current_ms = Some(std::array::from_fn(|p| approach(current_ms[p], goal_ms[p])));
            self.contained_age_ms = approach(self.contained_age_ms, self.age_ms);
        }
    }

    fn goal_ms(&self, amount: f64, trust: Option<&Trust>) -> Parameters {
        if let Some(ms) = self.fixed_ms {
            return [ms; PARAMETER_COUNT];
        }
        let base_ms = self.event_lead_ms() + MODEL_LAG_MS;
        let goal_ms = self.lags_ms.map(|lag| (base_ms + amount * lag).min(MAX_LEAD_MS));
        let Some(trust) = trust else {
            return goal_ms;
        };
        std::array::from_fn(|p| {
            let lead_ms = goal_ms[p];
            lead_ms * (trust_at(&trust[p], lead_ms) / FULL_LEAD_TRUST).min(1.0)
        })
    }
}

/// The trust at this lead, linear between the horizons.
fn trust_at(trust: &[f32; TRUST_HORIZONS_MS.len()], lead_ms: f64) -> f64 {
    let ([near, middle, far], [low, mid, high]) = (trust.map(f64::from), TRUST_HORIZONS_MS);
    if lead_ms <= low {
        near
    } else if lead_ms <= mid {
        near + (middle - near) * (lead_ms - low) / (mid - low)
    } else {
        middle + (far - middle) * (lead_ms - mid) / (high - mid)
    }
}
