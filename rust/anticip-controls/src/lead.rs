//! How far ahead the parameters are read: told, or what their way to the ear takes.
//!
//! Everything here depends on frames, on what is told and on nothing else, so that a replay gives the same bits: what
//! was measured of the sound while playing comes as a command, which is recorded.

use crate::vectors::{HORIZONS_MS, PARAMETER_COUNT, Parameters};

/// How late the model's loudness for now is where movement does not repeat, milliseconds: 20 to 40 in the clips of
/// `bench sound` (docs/latency.md), none in walking.
const MODEL_MS: f64 = 30.0;
/// A parameter is read as far ahead as it should be while so much of it is foreseen, and less in proportion.
const SKILLED: f64 = 0.5;
/// How fast a lead follows what it should be, ms per frame; the age of frames is averaged over so many of them and
/// followed when it is so many ms off, so that it rarely moves.
const EASE_MS: f64 = 0.5;
const FRAMES: f64 = 100.0;
const OFF_MS: f64 = 3.0;
const LONGEST_MS: f64 = HORIZONS_MS[HORIZONS_MS.len() - 1];
/// The horizons that trust is told of: from 100 ms on.
const TRUSTED_MS: [f64; 3] = [HORIZONS_MS[2], HORIZONS_MS[3], HORIZONS_MS[4]];

/// What share of a parameter at 100, 200 and 400 ms is foreseen, of each of the eight.
pub type Trust = [[f32; TRUSTED_MS.len()]; PARAMETER_COUNT];

/// The lead of each parameter, 0 to 400 ms.
///
/// An automatic one is the age of a frame when it leaves, how long what is sent takes to sound, how late the suit is,
/// what the model lags, and what smoothing lags; less where the model has no skill so far ahead.
#[derive(Debug, Clone)]
pub struct Lead {
    /// Milliseconds, 0 to 400; `None`: automatic.
    fixed_ms: Option<f64>,
    /// How long what is sent takes to sound, ms.
    pub sound_ms: f64,
    delay_ms: f64,
    /// What smoothing lags, ms.
    lags: Parameters,
    age: f64,
    averaged: f64,
    now: Option<Parameters>,
}

impl Lead {
    /// `delay_ms` is how late the suit is, `lags_ms` what smoothing lags.
    #[must_use]
    pub fn new(fixed_ms: Option<f64>, lags_ms: Parameters, sound_ms: f64, delay_ms: f64) -> Self {
        let mut lead = Self {
            fixed_ms: None,
            sound_ms,
            delay_ms,
            lags: lags_ms,
            age: 0.0,
            averaged: 0.0,
            now: None,
        };
        lead.set(fixed_ms);
        lead
    }

    /// What [`Lead::set`] set.
    #[must_use]
    pub fn fixed_ms(&self) -> Option<f64> {
        self.fixed_ms
    }

    /// So many milliseconds from the next frame on, or automatic.
    pub fn set(&mut self, ms: Option<f64>) {
        self.fixed_ms = ms;
        if let Some(ms) = ms {
            self.now = Some([ms; PARAMETER_COUNT]);
        }
    }

    /// From now on the parameters are smoothed otherwise.
    pub fn follow(&mut self, lags_ms: Parameters) {
        self.lags = lags_ms;
    }

    /// From the movement to the sound, without smoothing and the model: for what is announced.
    #[must_use]
    pub fn way_ms(&self) -> f64 {
        self.fixed_ms
            .unwrap_or_else(|| (self.age + self.sound_ms + self.delay_ms).min(LONGEST_MS))
    }

    /// Of the eight parameters in the coming frame, ms.
    #[must_use]
    pub fn leads(&self) -> Parameters {
        self.now.unwrap_or_else(|| self.goal(1.0, None))
    }

    /// A frame that left so long after its own time.
    pub fn add_age(&mut self, age_ms: f64) {
        self.averaged += (age_ms.clamp(0.0, LONGEST_MS) - self.averaged) / FRAMES;
        if (self.averaged - self.age).abs() > OFF_MS {
            self.age = self.averaged;
        }
    }

    /// Eases the leads towards what they should be: once a frame, when it has left.
    ///
    /// `amount` is the factor on smoothing; without trust nobody says what is foreseen.
    pub fn learn(&mut self, amount: f64, trust: Option<&Trust>) {
        if self.fixed_ms.is_none() {
            let goal = self.goal(amount, trust);
            let now = self.now.unwrap_or(goal);
            self.now = Some(std::array::from_fn(|p| {
                now[p] + (goal[p] - now[p]).clamp(-EASE_MS, EASE_MS)
            }));
        }
    }

    fn goal(&self, amount: f64, trust: Option<&Trust>) -> Parameters {
        if let Some(ms) = self.fixed_ms {
            return [ms; PARAMETER_COUNT];
        }
        let way = self.way_ms() + MODEL_MS;
        let goal = self.lags.map(|lag| (way + amount * lag).min(LONGEST_MS));
        let Some(trust) = trust else {
            return goal;
        };
        std::array::from_fn(|p| {
            let lead = goal[p];
            lead * (skill(&trust[p], lead) / SKILLED).min(1.0)
        })
    }
}

/// The trust so far ahead, linear between the horizons.
fn skill(trust: &[f32; TRUSTED_MS.len()], lead: f64) -> f64 {
    let ([near, middle, far], [low, mid, high]) = (trust.map(f64::from), TRUSTED_MS);
    if lead <= low {
        near
    } else if lead <= mid {
        near + (middle - near) * (lead - low) / (mid - low)
    } else {
        middle + (far - middle) * (lead - mid) / (high - mid)
    }
}
