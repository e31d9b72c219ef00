//! Irregular frames onto a uniform grid: along arcs and straight lines, or along curves that keep the speed.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::curve::{Curve, shortest};
use crate::pose::Pose;

/// Gaps of up to this many missing grid frames are filled; a longer one starts the stream anew.
pub const MAX_GAP: u32 = 25;

/// A curve is drawn through three frames where neither interval is longer than this times the other.
const ALIKE: f64 = 2.5;
/// Frames farther apart than this (grid steps), and than others are, have a gap between them.
const GAP: f64 = 3.5;

/// Joints of a pose, and rotations that one call gives at most (512 MiB in single precision).
const MAX_JOINTS: usize = 1024;
const MAX_ROTATIONS: f64 = (1 << 25) as f64;

/// A source time this close to a grid time (in grid steps) is that grid time: sources give seconds with rounding.
const SNAP: f64 = 1e-3;

/// A frame of the grid as it leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridFrame {
    /// Its index.
    pub index: u64,
    /// How far it lies from the frame before (0) to the frame just pushed (1).
    pub fraction: f64,
    /// True when it begins the stream, or begins it anew: nothing before it counts.
    pub start: bool,
}

/// What became of a pushed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Grid frames `first .. first + count` were completed by it (`count` may be 0).
    Frames {
        /// Index of the first one.
        first: u64,
        /// How many.
        count: u32,
    },
    /// It begins the stream, or begins it anew after a gap: one grid frame, and whatever came before is forgotten.
    Start {
        /// Its grid index.
        index: u64,
    },
    /// Its time is that of the newest frame: ignored.
    Doubled,
    /// Its time is before the newest frame's: ignored.
    Backwards,
}

/// Puts a stream of timed poses on a uniform grid that begins with the first frame.
///
/// A grid frame leaves with the push that reaches its time: by interpolation between the two frames around it, or
/// unchanged where a frame falls on it. Batch resampling is this very code run over a clip.
#[derive(Debug, Clone)]
pub struct Resampler {
    rate: f64,
    max_gap: Option<u32>,
    tolerance: f64,
    start: f64,
    /// Grid index of `start`.
    base: u64,
    /// Grid frames that have left since `start`.
    emitted: u64,
    /// Time of the newest frame in grid steps since `start`.
    newest: f64,
    running: bool,
    previous: Pose,
    current: Pose,
    /// Where frames are joined by curves: the frame before the previous one and its time, and the curve.
    curve: Option<Curve>,
    before: Pose,
    before_at: Option<f64>,
    /// The frame that ends a gap: its time, and its pose.
    waiting: Option<f64>,
    ending: Pose,
}

impl Resampler {
    /// A resampler for poses of `joints` joints onto a grid of `rate` frames a second. `max_gap` is the longest
    /// run of missing grid frames that is filled, `None` for any length (files).
    ///
    /// # Errors
    /// A rate that is not positive and finite, more than 1024 joints.
    pub fn new(joints: usize, rate: f64, max_gap: Option<u32>) -> Result<Self, MotionError> {
        if joints > MAX_JOINTS {
            return Err(MotionError::Option {
                option: "joints",
                expected: "at most 1024",
                given: joints.to_string(),
            });
        }
        if !(rate > 0.0 && rate.is_finite()) {
            return Err(MotionError::Option {
                option: "rate",
                expected: "a positive number of frames a second",
                given: rate.to_string(),
            });
        }
        Ok(Self {
            rate,
            max_gap,
            tolerance: SNAP,
            start: 0.0,
            base: 0,
            emitted: 0,
            newest: 0.0,
            running: false,
            previous: Pose::identity(joints),
            current: Pose::identity(joints),
            curve: None,
            before: Pose::identity(joints),
            before_at: None,
            waiting: None,
            ending: Pose::identity(joints),
        })
    }

    /// Joins frames by curves from now on: three frames that follow each other by a parabola, so that no frame of the
    /// grid is slower than the movement; the ends of a gap at the speed of each, for which the frame that ends it waits
    /// for the next one. Crossed at an even speed a gap looks like a stroke.
    #[must_use]
    pub fn curved(mut self) -> Self {
        self.curve = Some(Curve::new(self.joints()));
        self
    }

    /// How many joints a pose has.
    #[must_use]
    pub fn joints(&self) -> usize {
        self.current.rotations.len()
    }

    /// How far (in grid steps, at most half of one) a frame's time may be from a grid time to be taken for it: for
    /// sources whose clock is coarse. 0.001 at first.
    pub fn set_tolerance(&mut self, steps: f64) {
        self.tolerance = steps.clamp(SNAP, 0.5);
    }

    /// Forgets the stream; the next frame begins a new one with the next grid index.
    pub fn restart(&mut self) {
        self.waiting = None;
        if self.running {
            self.base += self.emitted;
            self.emitted = 0;
            self.running = false;
        }
    }

    /// Time of the newest frame, seconds.
    #[must_use]
    pub fn newest_time(&self) -> Option<f64> {
        self.running.then(|| self.start + self.newest / self.rate)
    }

    /// Replaces the newest frame: more of it has come. Grid frames that have left stay as they were.
    pub fn amend(&mut self, pose: &Pose) {
        if pose.rotations.len() != self.joints() {
            return;
        }
        if self.waiting.is_some() {
            self.ending.copy_from(pose);
        } else if self.running {
            self.current.copy_from(pose);
        }
    }

    /// Source time of a grid frame, seconds. Meaningful for frames since the last start.
    #[must_use]
    pub fn time_of(&self, index: u64) -> f64 {
        self.start + (index as f64 - self.base as f64) / self.rate
    }

    /// Takes the frame at time `seconds`; `each` receives every grid frame it completes, with the pose there (which
    /// lies in `scratch`). Where frames are joined by curves, one that ends a gap completes nothing until the next.
    ///
    /// # Errors
    /// A time that is not finite, or so far ahead that too many frames would be filled in; a pose with another number
    /// of joints.
    pub fn push(
        &mut self,
        seconds: f64,
        pose: &Pose,
        scratch: &mut Pose,
        mut each: impl FnMut(GridFrame, &Pose),
    ) -> Result<Pushed, MotionError> {
        if !seconds.is_finite() {
            return Err(MotionError::Option {
                option: "t_seconds",
                expected: "a finite time",
                given: seconds.to_string(),
            });
        }
        if pose.rotations.len() != self.joints() {
            return Err(MotionError::Shape {
                what: "pose",
                expected: format!("{} joints", self.joints()),
                given: format!("{} joints", pose.rotations.len()),
            });
        }
        if self.running {
            let gap = (seconds - self.start) * self.rate - self.newest;
            if self.max_gap.is_none_or(|max| gap < f64::from(max) + 1.5) {
                check_size(gap, self.joints())?;
            }
        }
        if let Some(then) = self.waiting {
            if seconds <= then {
                return Ok(if seconds < then {
                    Pushed::Backwards
                } else {
                    Pushed::Doubled
                });
            }
            self.waiting = None;
            let ending = std::mem::take(&mut self.ending);
            let gap = self.enter(then, &ending, Some((seconds, pose)), scratch, &mut each);
            self.ending = ending;
            let last = self.enter(seconds, pose, None, scratch, &mut each);
            return Ok(match (gap, last) {
                (Pushed::Frames { first, count }, Pushed::Frames { count: more, .. }) => Pushed::Frames {
                    first,
                    count: count + more,
                },
                _ => last,
            });
        }
        if self.ends_gap(seconds) {
            self.ending.copy_from(pose);
            self.waiting = Some(seconds);
            let first = self.base + self.emitted;
            return Ok(Pushed::Frames { first, count: 0 });
        }
        Ok(self.enter(seconds, pose, None, scratch, &mut each))
    }

    /// Writes the pose of a grid time that no frame has reached: the newest frame, carried on at the speed it came with.
    /// (Slowed down, a movement looks like the end of a stroke.) False before there is a frame.
    pub fn carry_on(&self, index: u64, out: &mut Pose) -> bool {
        let (from, to, a, b) = match (self.waiting, self.before_at) {
            _ if !self.running => return false,
            (Some(then), _) => {
                let ending = (then - self.start) * self.rate;
                (self.newest, ending, &self.current, &self.ending)
            }
            (None, Some(before)) => (before, self.newest, &self.before, &self.current),
            (None, None) => {
                out.copy_from(&self.current);
                return true;
            }
        };
        let further = (index as f64 - self.base as f64 - to) / (to - from);
        if further <= 0.0 {
            out.blend(a, b, 1.0 + further);
            return true;
        }
        for ((out, &qa), &qb) in out.rotations.iter_mut().zip(&a.rotations).zip(&b.rotations) {
            let turn = shortest(qa.conj() * qb).log();
            *out = (qb * Quat::exp(turn.map(|v| v * further))).normalize_or(qb);
        }
        out.root = std::array::from_fn(|i| b.root[i] + further * (b.root[i] - a.root[i]));
        true
    }

    /// True while a frame that ends a gap waits for the next one.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether a frame at this time ends a gap that is crossed at the speeds of both its ends.
    fn ends_gap(&self, seconds: f64) -> bool {
        let (Some(_), Some(before), Some(max), true) =
            (&self.curve, self.before_at, self.max_gap, self.running)
        else {
            return false;
        };
        let gap = (seconds - self.start) * self.rate - self.newest;
        gap > GAP && gap > ALIKE * (self.newest - before) && gap < f64::from(max) + 1.5
    }

    /// Puts a frame on the grid; `next` is the one after it, where it ends a gap.
    fn enter(
        &mut self,
        seconds: f64,
        pose: &Pose,
        next: Option<(f64, &Pose)>,
        scratch: &mut Pose,
        each: &mut impl FnMut(GridFrame, &Pose),
    ) -> Pushed {
        if !self.running {
            return self.begin(seconds, pose, scratch, each);
        }
        let exact = (seconds - self.start) * self.rate;
        let nearest = exact.round();
        let at = if (exact - nearest).abs() < self.tolerance {
            nearest
        } else {
            exact
        };
        if at == self.newest {
            return Pushed::Doubled;
        }
        if at < self.newest {
            return Pushed::Backwards;
        }
        let due = at.floor();
        let last = self.emitted as f64 - 1.0;
        if let Some(max) = self.max_gap
            && due - last - 1.0 > f64::from(max)
        {
            // The grid goes on counting through a gap, so that indices keep telling time.
            let passed = (due - last).min(1e12) as u64;
            self.base += self.emitted + passed - 1;
            self.emitted = 0;
            return self.begin(seconds, pose, scratch, each);
        }
        let from = self.newest;
        let lead = self.before_at.map(|before| from - before);
        std::mem::swap(&mut self.previous, &mut self.current);
        self.current.copy_from(pose);
        self.newest = at;
        let after = next
            .map(|(t, pose)| (pose, (t - seconds) * self.rate))
            .filter(|n| n.1 > 0.0);
        let alike = |lead: &f64| after.is_some() || (at - from) < ALIKE * lead && *lead < ALIKE * (at - from);
        let between = (self.emitted as f64) < at;
        let curve = match (&mut self.curve, lead.filter(alike)) {
            (Some(curve), Some(lead)) if between => {
                curve.draw(
                    [&self.before, &self.previous, &self.current],
                    lead,
                    at - from,
                    after,
                );
                Some(&*curve)
            }
            _ => None,
        };
        let first = self.base + self.emitted;
        let mut count = 0;
        while (self.emitted as f64) <= at {
            let u = (self.emitted as f64 - from) / (at - from);
            match curve {
                Some(curve) if u < 1.0 => curve.at(&self.previous, u, scratch),
                _ => scratch.blend(&self.previous, &self.current, u),
            }
            let grid = GridFrame {
                index: self.base + self.emitted,
                fraction: u,
                start: false,
            };
            each(grid, scratch);
            self.emitted += 1;
            count += 1;
        }
        if self.curve.is_some() {
            self.before.copy_from(&self.previous);
            self.before_at = Some(from);
        }
        Pushed::Frames { first, count }
    }

    fn begin(
        &mut self,
        seconds: f64,
        pose: &Pose,
        scratch: &mut Pose,
        each: &mut impl FnMut(GridFrame, &Pose),
    ) -> Pushed {
        self.running = true;
        self.before_at = None;
        self.start = seconds;
        self.newest = 0.0;
        self.emitted = 1;
        self.current.copy_from(pose);
        scratch.copy_from(pose);
        let grid = GridFrame {
            index: self.base,
            fraction: 1.0,
            start: true,
        };
        each(grid, scratch);
        Pushed::Start { index: self.base }
    }
}

/// Refuses more frames of so many joints at once than anybody means.
///
/// # Errors
/// More than 2^25 rotations.
pub fn check_size(frames: f64, joints: usize) -> Result<(), MotionError> {
    if frames * (joints + 1) as f64 <= MAX_ROTATIONS {
        return Ok(());
    }
    Err(MotionError::Option {
        option: "frames on the grid",
        expected: "at most 2^25 rotations at once",
        given: format!("{frames:.0} frames of {joints} joints"),
    })
}

/// Resamples a clip whose frame i lies at i / `rate_in` to `rate_out`; the first frame of both is the same.
///
/// # Errors
/// A rate that is not positive and finite, frames of different joint counts, more than [`check_size`] lets pass.
pub fn resample(frames: &[Pose], rate_in: f64, rate_out: f64) -> Result<Vec<Pose>, MotionError> {
    let joints = frames.first().map_or(0, |f| f.rotations.len());
    let mut resampler = Resampler::new(joints, rate_out, None)?;
    Resampler::new(joints, rate_in, None)?;
    check_size(frames.len() as f64 * rate_out / rate_in, joints)?;
    let mut scratch = Pose::identity(joints);
    let mut out = Vec::new();
    for (i, frame) in frames.iter().enumerate() {
        resampler.push(i as f64 / rate_in, frame, &mut scratch, |_, pose| {
            out.push(pose.clone());
        })?;
    }
    Ok(out)
}
