//! Smoothing of control vectors: critically damped springs, one-euro filters.

use std::f64::consts::PI;

/// How one value is smoothed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Smoothing {
    /// As it comes.
    None,
    /// A critically damped second-order low-pass.
    Spring {
        /// Seconds in which half of a step is covered; above 0.
        half_life: f64,
    },
    /// Casiez, Roussel and Vogel (CHI 2012): steady when still, quick when moved.
    OneEuro {
        /// Hz at rest; above 0.
        min_cutoff: f64,
        /// Hz more a unit/second of speed; at least 0.
        beta: f64,
    },
}

/// A critically damped step response (1 + wt) exp(-wt) reaches one half at wt = 1.6783.
const HALF: f64 = 1.678_346_990_016_660_5;
/// A spring of this rate is there within any frame; one of an infinite rate would be nowhere.
const INSTANT: f64 = 1e9;
/// Rate and decay of what is no spring.
const NO_SPRING: (f64, f64) = (f64::INFINITY, 0.0);
/// One-euro: the speed estimate is itself low-passed at 1 Hz (the paper's d_cutoff).
const SPEED_CUTOFF: f64 = 1.0;

/// Smooths a vector, aware of the time between frames.
///
/// The output never leaves the hull of the targets it was given, and a constant target is approached from one side
/// only: the exact solution of the critically damped spring is used, and a spring that would run through a target
/// that moved towards it stops there instead. That holds however it is retuned on the way.
#[derive(Debug, Clone)]
pub struct Smoother {
    settings: Vec<Smoothing>,
    amount: f64,
    begun: bool,
    value: Vec<f64>,
    speed: Vec<f64>,
    // Rate and decay of each spring, and the time step and amount they were made for: most steps are alike.
    springs: Vec<(f64, f64)>,
    made_for: Option<(f64, f64)>,
}

impl Smoother {
    /// A setting for each value; the first vector passes.
    #[must_use]
    pub fn new(settings: Vec<Smoothing>) -> Self {
        let count = settings.len();
        Self {
            settings,
            amount: 1.0,
            begun: false,
            value: vec![0.0; count],
            speed: vec![0.0; count],
            springs: vec![NO_SPRING; count],
            made_for: None,
        }
    }

    /// Factor on every time constant.
    #[must_use]
    pub fn amount(&self) -> f64 {
        self.amount
    }

    /// 0 is no smoothing, 1 as set, 4 four times as slow.
    pub fn set_amount(&mut self, amount: f64) {
        self.amount = amount;
    }

    /// Smooths by other settings from where each value stands; as many, or nothing changes.
    pub fn retune(&mut self, settings: Vec<Smoothing>) {
        if settings.len() == self.settings.len() {
            self.settings = settings;
            self.made_for = None;
        }
    }

    /// The target becomes the smoothed vector `dt` seconds after the last one; what is not finite is held.
    pub fn step(&mut self, target: &mut [f64], dt: f64) {
        if !self.begun {
            self.begun = true;
            for (value, goal) in self.value.iter_mut().zip(target) {
                *goal = if goal.is_finite() { *goal } else { 0.0 };
                *value = *goal;
            }
            return;
        }
        let (dt, amount) = (dt.max(0.0), self.amount);
        if self.made_for != Some((dt, amount)) {
            self.made_for = Some((dt, amount));
            let each = self.springs.iter_mut().zip(&mut self.speed);
            for ((spring, speed), setting) in each.zip(&self.settings) {
                *spring = if let Smoothing::Spring { half_life } = setting {
                    let rate = (HALF / half_life / amount).min(INSTANT);
                    // A spring runs as far as value + speed / rate, which stays in the hull: the speed of a
                    // faster one would take a slower one beyond.
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
                Smoothing::Spring { .. } => sprung(x, v, goal, dt, *spring),
                Smoothing::OneEuro { min_cutoff, beta } => {
                    one_euro(x, v, goal, dt, (min_cutoff, beta, amount))
                }
            };
            *out = *value;
        }
    }
}

fn sprung(x: f64, v: f64, goal: f64, dt: f64, (rate, decay): (f64, f64)) -> (f64, f64) {
    let y = x - goal;
    let c = v + rate * y;
    let y1 = (y + c * dt) * decay;
    if y * y1 < 0.0 {
        return (goal, 0.0);
    }
    (goal + y1, (v - c * rate * dt) * decay)
}

fn one_euro(x: f64, v: f64, goal: f64, dt: f64, (min_cutoff, beta, amount): (f64, f64, f64)) -> (f64, f64) {
    // Two frames at one time say nothing about speed.
    if dt < 1e-6 {
        return (x, v);
    }
    let v = v + dt / (dt + 1.0 / (2.0 * PI * SPEED_CUTOFF)) * ((goal - x) / dt - v);
    let cutoff = (min_cutoff + beta * v.abs()) / amount;
    (x + dt / (dt + 1.0 / (2.0 * PI * cutoff)) * (goal - x), v)
}
