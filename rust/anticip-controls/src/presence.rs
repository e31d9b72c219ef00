//! Output while the performer's signal is lost, and the return to live values.

use crate::crossfade::{Crossfade, ease, mix};

/// On signal loss the values hold for `hold` seconds, then fade to neutral within `fade`; when frames return,
/// the output catches up within `catch_up`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silence {
    /// Seconds, at least 0.
    pub hold: f64,
    /// Seconds, above 0.
    pub fade: f64,
    /// Seconds, at least 0.
    pub catch_up: f64,
}

/// Frames farther apart than this, in seconds, are eased into.
const GAP_S: f64 = 0.1;

/// Holds, fades and returns.
#[derive(Debug, Clone)]
pub struct Presence {
    settings: Silence,
    neutral: Vec<f64>,
    catch_up: Crossfade,
    held: Vec<f64>,
    out: Vec<f64>,
    silent_s: f64,
}

impl Presence {
    /// Starts at neutral.
    #[must_use]
    pub fn new(settings: Silence, neutral: &[f64]) -> Self {
        Self {
            settings,
            neutral: neutral.to_vec(),
            catch_up: Crossfade::new(settings.catch_up),
            held: neutral.to_vec(),
            out: neutral.to_vec(),
            silent_s: 0.0,
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> Silence {
        self.settings
    }

    /// Seconds since the last live vector, as counted by [`Presence::silence`].
    #[must_use]
    pub fn silent_s(&self) -> f64 {
        self.silent_s
    }

    /// The output for a frame with these values, `dt` seconds after the last one, eased in after a gap.
    ///
    /// It continues from where [`Presence::silence`] is by then, however often that was called.
    pub fn live(&mut self, values: &mut [f64], mut dt: f64) {
        // The silence may have begun before the last frame's forecasts ended, which `dt` counts from.
        let gap_s = dt.max(self.silent_s);
        if gap_s > GAP_S {
            self.fade(gap_s);
            self.catch_up.start(&self.out);
            dt = GAP_S / 5.0;
        }
        self.silent_s = 0.0;
        self.catch_up.step(values, dt);
        self.out.copy_from_slice(values);
        self.held.copy_from_slice(values);
    }

    /// The held or fading vector, without a frame for another `dt` seconds.
    pub fn silence(&mut self, dt: f64) -> &[f64] {
        self.silent_s += dt.max(0.0);
        self.fade(self.silent_s);
        &self.out
    }

    /// Sets the output to that `seconds` after the last frame.
    fn fade(&mut self, seconds: f64) {
        self.out.copy_from_slice(&self.neutral);
        let faded = ease((seconds - self.settings.hold) / self.settings.fade);
        mix(&self.held, &mut self.out, faded);
    }

    /// Continues as if `values` had just been played.
    pub fn begin(&mut self, values: &[f64]) {
        self.held.copy_from_slice(values);
        self.out.copy_from_slice(values);
    }

    /// Eases from the current output into the next live vector.
    pub fn restart(&mut self) {
        self.catch_up.start(&self.out);
    }
}
