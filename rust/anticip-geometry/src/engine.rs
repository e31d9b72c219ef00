//! The seven scalars of a stream of states, term by term as defined.

use crate::config::{Options, Stability, Uncertainty};
use crate::increments::Increments;
use crate::kernel::dot;
use crate::space::Space;
use crate::vendi;
use crate::window::Window;

/// One stream: takes states, returns scalars. Allocates nothing after construction, except for the growing window of
/// `window: None`.
#[derive(Clone, Debug)]
pub(crate) struct Engine<S> {
    options: Options,
    r0: f64,
    window: Window<S>,
    frames: usize,
    tangent: usize,
    /// Increments over single frames.
    velocities: Increments,
    /// Increments over a stride of more than one frame.
    strides: Option<Increments>,
    /// Unit directions of the continuations, by slot.
    directions: Vec<f64>,
    /// Their coordinates in an extra dimension that represents rest, by slot.
    rests: Vec<f64>,
    /// Norms of the jerks, by slot.
    jerks: Vec<f64>,
    sum: Vec<f64>,
    /// Scratch of the Vendi score.
    kernel: Vec<f64>,
    /// Commitment and uncertainty of the newest frame and of the stride before it, frame `t` at `t % (stride + 1)`.
    history: Vec<[f64; 2]>,
    pressure: f64,
}

/// The terms of the scalars, each in `[0, 1]`.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) uncertainty: f64,
    pub(crate) proximity: f64,
    pub(crate) persistence: f64,
    pub(crate) phase: f64,
    pub(crate) novelty: f64,
    pub(crate) stability: f64,
}

impl<S: Space> Engine<S> {
    /// Creates an engine; the options must be valid.
    pub(crate) fn new(space: S, options: Options) -> Self {
        let tangent = space.tangent_len();
        let n = options.window.unwrap_or(0);
        let (rows, stride) = (options.persistence.max(3), options.stride);
        Self {
            r0: options.radius_offset(),
            window: Window::new(space, options.window, options.k),
            frames: 0,
            tangent,
            velocities: Increments::new(1, rows, tangent),
            strides: (stride > 1).then(|| Increments::new(stride, 2 * stride + 1, tangent)),
            directions: vec![0.0; n * tangent],
            rests: vec![0.0; n],
            jerks: vec![0.0; n],
            sum: vec![0.0; tangent],
            kernel: match options.uncertainty {
                Uncertainty::Directional => Vec::new(),
                Uncertainty::Vendi => vec![0.0; options.k * options.k],
            },
            history: vec![[0.0; 2]; stride + 1],
            pressure: 0.0,
            options,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.frames = 0;
        self.window.reset();
        if self.options.window.is_none() {
            self.directions.clear();
            self.rests.clear();
            self.jerks.clear();
        }
    }

    /// See [`Window::touch`].
    pub(crate) fn touch(&self) -> f64 {
        let near = self.window.neighbours();
        let directions = near.flat_map(|age| self.direction(age).0.iter().step_by(8));
        let increments = std::iter::once(&self.velocities).chain(&self.strides);
        let increments = increments.flat_map(|i| i.values().iter().step_by(8));
        directions.chain(increments).sum::<f64>() + self.window.touch()
    }

    /// An empty copy of the space.
    pub(crate) fn empty_space(&self) -> S
    where
        S: Clone,
    {
        let mut space = self.window.space.clone();
        space.clear();
        space
    }

    /// Returns the scalars of the next frame.
    #[inline(always)]
    pub(crate) fn push(&mut self, state: &[f64]) -> [f64; 7] {
        let parts = self.advance(state);
        self.combine(&parts)
    }

    /// Returns the terms of the next frame.
    #[inline(always)]
    pub(crate) fn advance(&mut self, state: &[f64]) -> Parts {
        let t = self.frames;
        let step = self.take_increments(t, state);
        self.frames += 1;
        self.window.push(state, step);
        self.take_continuation(t);
        let stability = self.stability(t);

        let scale = self.window.radius() + self.r0;
        let o = &self.options;
        let nearest = self
            .window
            .search(o.theiler, o.theiler.max(o.horizon), 1e-9 * scale);
        let novelty = nearest.map_or(1.0, |d| (d / (2.0 * scale)).min(1.0));
        let velocity = (t > 0).then(|| self.velocities.at(t).0);
        let proximity = self.window.space.proximity(state, velocity).unwrap_or_else(|| {
            let ramp = ((self.window.len() - 1) as f64 / 8.0).min(1.0);
            self.window.offset() / scale * ramp
        });
        Parts {
            uncertainty: self.uncertainty(),
            proximity,
            persistence: self.persistence(t),
            phase: self.strided().phase_stiffness(t, self.options.eps_v),
            novelty,
            stability,
        }
    }

    /// Returns the scalars of the frame just taken, from its terms.
    #[inline(always)]
    pub(crate) fn combine(&mut self, parts: &Parts) -> [f64; 7] {
        let &Parts {
            uncertainty,
            proximity,
            persistence,
            phase,
            novelty,
            stability,
        } = parts;
        let [certainty_weight, proximity_weight, persistence_weight] = self.options.commitment;
        let commitment = certainty_weight * (1.0 - uncertainty)
            + proximity_weight * proximity
            + persistence_weight * persistence;
        let commitment = commitment.clamp(0.0, 1.0);
        let t = self.frames - 1;
        let now = t % self.history.len();
        self.history[now] = [commitment, uncertainty];
        let raw = self.pressure_over(self.options.stride);
        self.pressure = match self.options.ema {
            Some(a) if t > 0 => a * raw + (1.0 - a) * self.pressure,
            _ => raw,
        };
        [
            commitment,
            uncertainty,
            self.pressure.clamp(-2.0, 2.0),
            1.0 - proximity,
            phase,
            novelty,
            stability,
        ]
    }

    /// Increase of commitment less that of uncertainty over the last `frames`, a stride at most; 0 if there are fewer.
    #[inline(always)]
    fn pressure_over(&self, frames: usize) -> f64 {
        let (t, rows) = (self.frames - 1, self.history.len());
        if t < frames {
            return 0.0;
        }
        let ([commitment, uncertainty], before) = (self.history[t % rows], self.history[(t - frames) % rows]);
        (commitment - before[0]) - (uncertainty - before[1])
    }

    /// The increments for phase stiffness and stability.
    #[inline(always)]
    fn strided(&self) -> &Increments {
        self.strides.as_ref().unwrap_or(&self.velocities)
    }

    /// Stores the increments that end at `state`, frame `t`; returns the distance from the state before it.
    #[inline(always)]
    fn take_increments(&mut self, t: usize, state: &[f64]) -> f64 {
        let (window, stride) = (&self.window, self.options.stride);
        let before = |frames: usize| (t >= frames).then(|| window.state(frames - 1));
        if let Some(strides) = &mut self.strides {
            strides.take(t, &window.space, before(stride), state);
        }
        self.velocities.take(t, &window.space, before(1), state)
    }

    /// Stores the direction of the continuation of the state `horizon` frames ago, which is known now.
    #[inline(always)]
    fn take_continuation(&mut self, t: usize) {
        let h = self.options.horizon;
        if self.options.window.is_none() {
            self.directions.resize((t + 1) * self.tangent, 0.0);
            self.rests.push(0.0);
            self.jerks.push(0.0);
        }
        if t < h {
            return;
        }
        let slot = self.window.slot(t - h);
        let c = &mut self.directions[slot * self.tangent..(slot + 1) * self.tangent];
        self.window
            .space
            .inc(self.window.state(h), self.window.state(0), c);
        let norm = (dot(c, c) + self.options.eps_v * self.options.eps_v).sqrt();
        for x in c.iter_mut() {
            *x /= norm;
        }
        self.rests[slot] = self.options.eps_v / norm;
    }

    #[inline(always)]
    fn direction(&self, age: usize) -> (&[f64], f64) {
        let slot = self.window.slot(self.frames - 1 - age);
        (
            &self.directions[slot * self.tangent..(slot + 1) * self.tangent],
            self.rests[slot],
        )
    }

    #[inline(always)]
    fn uncertainty(&mut self) -> f64 {
        let k = self.options.k;
        let n = self.window.neighbours().len();
        if n < 2 {
            return 1.0;
        }
        let spread = if self.options.uncertainty == Uncertainty::Vendi {
            let ages = || self.window.neighbours();
            let mut kernel = std::mem::take(&mut self.kernel);
            let value = vendi::spread(&mut kernel, n, |i, j| {
                let (Some(a), Some(b)) = (ages().nth(i), ages().nth(j)) else {
                    return 0.0;
                };
                let ((u, p), (v, q)) = (self.direction(a), self.direction(b));
                dot(u, v) + p * q
            });
            self.kernel = kernel;
            value
        } else {
            let mut sum = std::mem::take(&mut self.sum);
            sum.fill(0.0);
            let mut rest = 0.0;
            for age in self.window.neighbours() {
                let (u, r) = self.direction(age);
                for (s, u) in sum.iter_mut().zip(u) {
                    *s += u;
                }
                rest += r;
            }
            let square = dot(&sum, &sum) + rest * rest;
            self.sum = sum;
            let n = n as f64;
            1.0 - ((square - n) / (n * (n - 1.0))).max(0.0)
        };
        let (n, k) = (n as f64, k as f64);
        ((n * spread.clamp(0.0, 1.0) + (k - n)) / k).clamp(0.0, 1.0)
    }

    /// Straightness of the last velocities.
    #[inline(always)]
    fn persistence(&mut self, t: usize) -> f64 {
        let m = self.options.persistence;
        let mut sum = std::mem::take(&mut self.sum);
        sum.fill(0.0);
        let mut path = m as f64 * self.options.eps_v;
        for age in 0..m.min(t) {
            let (v, speed) = self.velocities.at(t - age);
            for (s, v) in sum.iter_mut().zip(v) {
                *s += v;
            }
            path += speed;
        }
        let straight = dot(&sum, &sum).sqrt() / path;
        self.sum = sum;
        straight.min(1.0)
    }

    #[inline(always)]
    fn stability(&mut self, t: usize) -> f64 {
        let jerk = self.strided().jerk(t);
        let slot = self.window.slot(t);
        self.jerks[slot] = jerk;
        match self.options.stability {
            Stability::Speed => self.strided().stability(t, jerk, self.options.eps_v),
            Stability::MaxJerk => {
                // A jerk reaches three strides back: those of the window's first three strides reach out of it.
                let known = self.window.len().saturating_sub(3 * self.options.stride);
                let largest = (0..known)
                    .map(|age| self.jerks[self.window.slot(t - age)])
                    .fold(0.0, f64::max);
                if largest > 0.0 {
                    (1.0 - jerk / largest).clamp(0.0, 1.0)
                } else {
                    1.0
                }
            }
        }
    }
}
