//! Smoothing of control vectors: critically damped springs, one-euro filters.

use std::f64::consts::PI;

/// How one value is smoothed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Smoothing {
    /// No smoothing.
    None,
    /// A critically damped second-order low-pass.
    Spring {
        /// Time in which half of a step is covered, in seconds; above 0.
        half_life: f64,
    },
    /// The one-euro filter of Casiez, Roussel and Vogel (CHI 2012): steady at rest, quick in motion.
    OneEuro {
        /// Cutoff at rest, in Hz; above 0.
        min_cutoff: f64,
        /// Increase of the cutoff per unit/second of speed, in Hz; at least 0.
        beta: f64,
    },
}

/// A critically damped step response (1 + wt) exp(-wt) reaches one half at wt = 1.6783.
const HALF: f64 = 1.678_346_990_016_660_5;
/// Maximum rate of a spring: it arrives within any frame; an infinite rate would give NaN.
const MAX_RATE: f64 = 1e9;
/// Rate and decay of a value that has no spring.
const NO_SPRING: (f64, f64) = (f64::INFINITY, 0.0);
/// One-euro: the speed estimate is itself low-passed at 1 Hz (the paper's d_cutoff).
const SPEED_CUTOFF: f64 = 1.0;

/// Smooths a vector whose frames come at varying intervals.
///
/// The output never leaves the hull of its targets, and a constant target is approached from one side only:
/// the critically damped spring is solved exactly and stops at a target that it would otherwise overshoot
/// because the target moved towards it. This holds however the smoother is retuned on the way.
#[derive(Debug, Clone)]
pub struct Smoother {
    settings: Vec<Smoothing>,
    amount: f64,
    has_value: bool,
    value: Vec<f64>,
    speed: Vec<f64>,
    // Rate and decay of each spring, computed for `springs_for`, a (dt, amount): most steps use the same.
    springs: Vec<(f64, f64)>,
    springs_for: Option<(f64, f64)>,
}

impl Smoother {
    /// One setting per value; the first vector passes unchanged.
    #[must_use]
    pub fn new(settings: Vec<Smoothing>) -> Self {
        let count = settings.len();
        Self {
            settings,
            amount: 1.0,
            has_value: false,
            value: vec![0.0; count],
            speed: vec![0.0; count],
            springs: vec![NO_SPRING; count],
            springs_for: None,
        }
    }

    /// The factor on every time constant.
    #[must_use]
    pub fn amount(&self) -> f64 {
        self.amount
    }

    /// Sets the factor on every time constant: 0 turns smoothing off, 4 makes it four times as slow.
    pub fn set_amount(&mut self, amount: f64) {
        self.amount = amount;
    }

    /// Replaces the settings, keeping the current values; ignored unless `settings` has the same length.
    pub fn retune(&mut self, settings: Vec<Smoothing>) {
        if settings.len() == self.settings.len() {
            self.settings = settings;
            self.springs_for = None;
        }
    }

    /// Smooths `target` in place, `dt` seconds after the last step; a non-finite target holds the current
    /// value.
    pub fn step(&mut self, target: &mut [f64], dt: f64) {
        if !self.has_value {
            self.has_value = true;
            for (value, goal) in self.value.iter_mut().zip(target) {
                *goal = if goal.is_finite() { *goal } else { 0.0 };
                *value = *goal;
            }
            return;
        }
        let (dt, amount) = (dt.max(0.0), self.amount);
        if self.springs_for != Some((dt, amount)) {
            self.springs_for = Some((dt, amount));
            let each = self.springs.iter_mut().zip(&mut self.speed);
            for ((spring, speed), setting) in each.zip(&self.settings) {
                *spring = if let Smoothing::Spring { half_life } = setting {
                    let rate = (HALF / half_life / amount).min(MAX_RATE);
                    // A spring overshoots to value + speed / rate at most, which is inside the hull: without
                    // scaling, the speed of a faster spring would carry a slower one out of it.
                    *speed *= (rate / spring.0).min(1.0);
                    (rate, (-rate * dt).exp())
                } else {
                    NO_SPRING
                };
            }
        }
        let each = self
            .value
            .iter_mut()
            .zip(&mut self.speed)
            .zip(&self.settings)
            .zip(&self.springs);
        for ((((value, speed), setting), spring), out) in each.zip(target) {
            let (x, v) = (*value, *speed);
            let goal = if out.is_finite() { *out } else { x };
            (*value, *speed) = match *setting {
                _ if amount == 0.0 => (goal, 0.0),
                Smoothing::None => (goal, 0.0),
                Smoothing::Spring { .. } => step_spring(x, v, goal, dt, *spring),
                Smoothing::OneEuro { min_cutoff, beta } => {
                    step_one_euro(x, v, goal, dt, (min_cutoff, beta, amount))
                }
            };
            *out = *value;
        }
    }
}

fn step_spring(x: f64, v: f64, goal: f64, dt: f64, (rate, decay): (f64, f64)) -> (f64, f64) {
    let y = x - goal;
    let c = v + rate * y;
    let y1 = (y + c * dt) * decay;
    if y * y1 < 0.0 {
        return (goal, 0.0);
    }
    (goal + y1, (v - c * rate * dt) * decay)
}

fn step_one_euro(
    x: f64,
    v: f64,
    goal: f64,
    dt: f64,
    (min_cutoff, beta, amount): (f64, f64, f64),
) -> (f64, f64) {
    // Two frames with the same timestamp give no speed.
    if dt < 1e-6 {
        return (x, v);
    }
    let v = v + dt / (dt + 1.0 / (2.0 * PI * SPEED_CUTOFF)) * ((goal - x) / dt - v);
    let cutoff = (min_cutoff + beta * v.abs()) / amount;
    (x + dt / (dt + 1.0 / (2.0 * PI * cutoff)) * (goal - x), v)
}
