//! What plays while the performer's signal is lost, and how the output gets back.

use crate::crossfade::{Crossfade, ease, mix};

/// For `hold` seconds after the last frame the values stand still, then they go to neutral within `fade`; when frames
/// come again the output catches up within `catch_up`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silence {
    /// Seconds, at least 0.
    pub hold: f64,
    /// Seconds, above 0.
    pub fade: f64,
    /// Seconds, at least 0.
    pub catch_up: f64,
}

/// Frames that are farther apart than this, in seconds, are eased in.
const GAP: f64 = 0.1;

/// Holds, fades and comes back.
#[derive(Debug, Clone)]
pub struct Presence {
    settings: Silence,
    neutral: Vec<f64>,
    catch: Crossfade,
    held: Vec<f64>,
    out: Vec<f64>,
    silent: f64,
}

impl Presence {
    /// At neutral.
    #[must_use]
    pub fn new(settings: Silence, neutral: &[f64]) -> Self {
        Self {
            settings,
            neutral: neutral.to_vec(),
            catch: Crossfade::new(settings.catch_up),
            held: neutral.to_vec(),
            out: neutral.to_vec(),
            silent: 0.0,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> Silence {
        self.settings
    }

    /// Seconds since the last live vector, as far as [`Presence::silence`] was told.
    #[must_use]
    pub fn silent(&self) -> f64 {
        self.silent
    }

    /// A frame came, `dt` seconds after the last one: its values, eased in if there was a gap.
    ///
    /// What comes out depends on the times of the frames alone, not on how often [`Presence::silence`] was called
    /// between them.
    pub fn live(&mut self, values: &mut [f64], mut dt: f64) {
        if dt > GAP {
            let after = self.after(dt);
            self.catch.start(&after);
            dt = GAP / 5.0;
        }
        self.silent = 0.0;
        self.catch.step(values, dt);
        self.out.copy_from_slice(values);
        self.held.copy_from_slice(values);
    }

    /// No frame for another `dt` seconds: the held or fading vector.
    pub fn silence(&mut self, dt: f64) -> &[f64] {
        self.silent += dt.max(0.0);
        self.out = self.after(self.silent);
        &self.out
    }

    /// What is played so long after the last frame.
    fn after(&self, seconds: f64) -> Vec<f64> {
        let mut out = self.neutral.clone();
        mix(
            &self.held,
            &mut out,
            ease((seconds - self.settings.hold) / self.settings.fade),
        );
        out
    }

    /// As if these values had just been played.
    pub fn begin(&mut self, values: &[f64]) {
        self.held.copy_from_slice(values);
        self.out.copy_from_slice(values);
    }

    /// Eases into the next live vector from where the output stands.
    pub fn restart(&mut self) {
        self.catch.start(&self.out);
    }
}
