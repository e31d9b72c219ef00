//! Resampling of irregular frames onto a uniform grid, linearly (slerp for rotations) or along curves that keep the
//! speed.

use anticip_geometry::Quat;

use crate::MotionError;
use crate::curve::{Curve, shortest};
use crate::error::check;
use crate::pose::Pose;

/// Gaps of up to this many missing grid frames are filled; a longer one starts a new stream.
pub const MAX_GAP: u32 = 25;

/// A curve is drawn through three frames if neither interval is longer than the other by this factor.
const MAX_INTERVAL_RATIO: f64 = 2.5;
/// Frames farther apart than this (grid steps), and than the frames before by that factor, have a gap between them.
const MIN_GAP: f64 = 3.5;

/// Most joints of a pose.
const MAX_JOINTS: usize = 1024;
/// Most rotations that one call outputs (512 MiB in single precision).
const MAX_ROTATIONS: f64 = (1 << 25) as f64;

/// A source time this close to a grid time (grid steps) is taken for it, because sources round their times.
const SNAP: f64 = 1e-3;

/// Position of an output frame on the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GridFrame {
    /// Grid index.
    pub index: u64,
    /// Position between the previous source frame (0) and the one just pushed (1).
    pub fraction: f64,
    /// True if it starts a stream: nothing before it counts.
    pub start: bool,
}

/// Result of pushing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// The frame completed the grid frames `first .. first + count` (`count` may be 0).
    Frames {
        /// Index of the first grid frame.
        first: u64,
        /// Number of grid frames.
        count: u32,
    },
    /// The frame starts a stream, at first or after a gap: it is one grid frame, and earlier frames are forgotten.
    Start {
        /// Grid index of the frame.
        index: u64,
    },
    /// The time is that of the newest frame: the frame is ignored.
    Doubled,
    /// The time is before the newest frame's: the frame is ignored.
    Backwards,
}

/// Resamples a stream of timed poses onto a uniform grid that starts at the first frame.
///
/// A grid frame is output by the push that reaches its time: interpolated between the two frames around it, or
/// unchanged if a frame falls on it. Clips are resampled by the same code.
#[derive(Debug, Clone)]
pub struct Resampler {
    rate: f64,
    max_gap: Option<u32>,
    tolerance: f64,
    start: f64,
    /// Grid index of `start`.
    base: u64,
    /// Grid frames output since `start`.
    emitted: u64,
    /// Time of the newest frame in grid steps since `start`.
    newest: f64,
    is_running: bool,
    previous: Pose,
    current: Pose,
    /// Set if frames are joined by curves.
    curve: Option<Curve>,
    /// The frame before `previous`, and its time in grid steps since `start`.
    before: Pose,
    before_at: Option<f64>,
    /// Time of a frame that ends a gap and is not on the grid yet, seconds; `pending` is its pose.
    pending_time: Option<f64>,
    pending: Pose,
}

impl Resampler {
    /// Creates a resampler for poses of `joints` joints onto a grid of `rate` frames a second. `max_gap` is the
    /// longest run of missing grid frames that is filled; `None` fills any (for files).
    ///
    /// # Errors
    /// A rate that is not positive and finite, more than 1024 joints.
    pub fn new(joints: usize, rate: f64, max_gap: Option<u32>) -> Result<Self, MotionError> {
        check(joints <= MAX_JOINTS, "joints", "at most 1024", joints)?;
        check_rate(rate)?;
        Ok(Self {
            rate,
            max_gap,
            tolerance: SNAP,
            start: 0.0,
            base: 0,
            emitted: 0,
            newest: 0.0,
            is_running: false,
            previous: Pose::identity(joints),
            current: Pose::identity(joints),
            curve: None,
            before: Pose::identity(joints),
            before_at: None,
            pending_time: None,
            pending: Pose::identity(joints),
        })
    }

    /// Joins frames by curves: consecutive frames by a parabola through three of them, so that no grid frame is
    /// slower than the movement; and the ends of a gap by a curve that keeps the speed of each, for which the frame
    /// that ends it is held until the next one comes. A gap that is crossed at constant speed looks like a stroke.
    #[must_use]
    pub fn curved(mut self) -> Self {
        self.curve = Some(Curve::new(self.joints()));
        self
    }

    /// Number of joints of a pose.
    #[must_use]
    pub fn joints(&self) -> usize {
        self.current.rotations.len()
    }

    /// Sets how far (grid steps, at most half of one) a frame's time may be from a grid time to be taken for it, for
    /// sources with a coarse clock. The default is 0.001.
    pub fn set_tolerance(&mut self, steps: f64) {
        self.tolerance = steps.clamp(SNAP, 0.5);
    }

    /// Forgets the stream; the next frame starts a new one at the next grid index.
    pub fn restart(&mut self) {
        self.pending_time = None;
        if self.is_running {
            self.base += self.emitted;
            self.emitted = 0;
            self.is_running = false;
        }
    }

    /// Grid index of the next grid frame, unless a gap comes before it.
    pub(crate) fn next_index(&self) -> u64 {
        self.base + self.emitted
    }

    /// Forgets the stream; the next frame starts a new one at grid index `index`.
    pub(crate) fn restart_at(&mut self, index: u64) {
        self.restart();
        self.base = index;
    }

    /// Time of the newest frame, seconds.
    #[must_use]
    pub fn newest_time(&self) -> Option<f64> {
        self.is_running.then(|| self.start + self.newest / self.rate)
    }

    /// Replaces the newest frame after more of it has come. Grid frames that were output are not changed.
    pub fn amend(&mut self, pose: &Pose) {
        if pose.rotations.len() != self.joints() {
            return;
        }
        if self.pending_time.is_some() {
            self.pending.copy_from(pose);
        } else if self.is_running {
            self.current.copy_from(pose);
        }
    }

    /// Source time of a grid frame, seconds. Only valid for frames since the last start.
    #[must_use]
    pub fn time_of(&self, index: u64) -> f64 {
        self.start + (index as f64 - self.base as f64) / self.rate
    }

    /// Takes the frame at time `seconds` and calls `on_frame` with every grid frame it completes and its pose (which
    /// is in `scratch`). With curves, a frame that ends a gap completes nothing until the next one.
    ///
    /// # Errors
    /// A time that is not finite, or so far ahead that too many frames would be filled in; a pose with another number
    /// of joints.
    pub fn push(
        &mut self,
        seconds: f64,
        pose: &Pose,
        scratch: &mut Pose,
        mut on_frame: impl FnMut(GridFrame, &Pose),
    ) -> Result<Pushed, MotionError> {
        check(seconds.is_finite(), "t_seconds", "a finite time", seconds)?;
        if pose.rotations.len() != self.joints() {
            return Err(MotionError::Shape {
                what: "pose",
                expected: format!("{} joints", self.joints()),
                given: format!("{} joints", pose.rotations.len()),
            });
        }
        if self.is_running {
            let gap = (seconds - self.start) * self.rate - self.newest;
            if self.max_gap.is_none_or(|max| gap < f64::from(max) + 1.5) {
                check_size(gap, self.joints())?;
            }
        }
        if let Some(pending_time) = self.pending_time {
            if seconds <= pending_time {
                return Ok(if seconds < pending_time {
                    Pushed::Backwards
                } else {
                    Pushed::Doubled
                });
            }
            self.pending_time = None;
            let pending = std::mem::take(&mut self.pending);
            let gap = self.enter(
                pending_time,
                &pending,
                Some((seconds, pose)),
                scratch,
                &mut on_frame,
            );
            self.pending = pending;
            let last = self.enter(seconds, pose, None, scratch, &mut on_frame);
            return Ok(match (gap, last) {
                (Pushed::Frames { first, count }, Pushed::Frames { count: more, .. }) => Pushed::Frames {
                    first,
                    count: count + more,
                },
                _ => last,
            });
        }
        if self.ends_gap(seconds) {
            self.pending.copy_from(pose);
            self.pending_time = Some(seconds);
            let first = self.base + self.emitted;
            return Ok(Pushed::Frames { first, count: 0 });
        }
        Ok(self.enter(seconds, pose, None, scratch, &mut on_frame))
    }

    /// Extrapolates the newest frame at its speed to a grid time that no frame has reached; returns false before the
    /// first frame. (Slower, the movement would look like the end of a stroke.)
    pub fn extrapolate(&self, index: u64, out: &mut Pose) -> bool {
        let (from, to, a, b) = match (self.pending_time, self.before_at) {
            _ if !self.is_running => return false,
            (Some(pending_time), _) => {
                let at = (pending_time - self.start) * self.rate;
                (self.newest, at, &self.current, &self.pending)
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

    /// Whether a frame that ends a gap is held until the next one comes.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.pending_time.is_some()
    }

    /// Whether a frame at this time ends a gap that a curve is to cross.
    fn ends_gap(&self, seconds: f64) -> bool {
        let (Some(_), Some(before), Some(max), true) =
            (&self.curve, self.before_at, self.max_gap, self.is_running)
        else {
            return false;
        };
        let gap = (seconds - self.start) * self.rate - self.newest;
        gap > MIN_GAP && gap > MAX_INTERVAL_RATIO * (self.newest - before) && gap < f64::from(max) + 1.5
    }

    /// Puts a frame on the grid; `next` is the frame after it if it ends a gap.
    fn enter(
        &mut self,
        seconds: f64,
        pose: &Pose,
        next: Option<(f64, &Pose)>,
        scratch: &mut Pose,
        on_frame: &mut impl FnMut(GridFrame, &Pose),
    ) -> Pushed {
        if !self.is_running {
            return self.begin(seconds, pose, scratch, on_frame);
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
            // The grid index advances through a gap, so that indices keep counting time.
            let passed = (due - last).min(1e12) as u64;
            self.base += self.emitted + passed - 1;
            self.emitted = 0;
            return self.begin(seconds, pose, scratch, on_frame);
        }
        let from = self.newest;
        let lead = self.before_at.map(|before| from - before);
        std::mem::swap(&mut self.previous, &mut self.current);
        self.current.copy_from(pose);
        self.newest = at;
        let after = next
            .map(|(t, pose)| (pose, (t - seconds) * self.rate))
            .filter(|n| n.1 > 0.0);
        let is_usable = |lead: &f64| {
            after.is_some()
                || (at - from) < MAX_INTERVAL_RATIO * lead && *lead < MAX_INTERVAL_RATIO * (at - from)
        };
        let between = (self.emitted as f64) < at;
        let curve = match (&mut self.curve, lead.filter(is_usable)) {
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
            on_frame(grid, scratch);
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
        on_frame: &mut impl FnMut(GridFrame, &Pose),
    ) -> Pushed {
        self.is_running = true;
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
        on_frame(grid, scratch);
        Pushed::Start { index: self.base }
    }
}

fn check_rate(rate: f64) -> Result<(), MotionError> {
    let expected = "a positive number of frames a second";
    check(rate > 0.0 && rate.is_finite(), "rate", expected, rate)
}

/// Checks that a resampled clip or gap has a reasonable size.
fn check_size(frames: f64, joints: usize) -> Result<(), MotionError> {
    check(
        frames * (joints + 1) as f64 <= MAX_ROTATIONS,
        "frames on the grid",
        "at most 2^25 rotations at once",
        format_args!("{frames:.0} frames of {joints} joints"),
    )
}

/// Resamples a clip whose frame i, of rotations and root, is at time i / `rate_in` to `rate_out`, and calls `on_frame`
/// with each frame of the result; the first one stays the same.
///
/// # Errors
/// A rate that is not positive and finite, frames without `joints` joints, a result of more than 2^25 rotations.
pub fn resample<'a>(
    frames: impl ExactSizeIterator<Item = (&'a [Quat], [f64; 3])>,
    joints: usize,
    [rate_in, rate_out]: [f64; 2],
    mut on_frame: impl FnMut(&Pose),
) -> Result<(), MotionError> {
    let mut resampler = Resampler::new(joints, rate_out, None)?;
    check_rate(rate_in)?;
    check_size(frames.len() as f64 * rate_out / rate_in, joints)?;
    let [mut pose, mut scratch] = [Pose::identity(joints), Pose::identity(joints)];
    for (i, (rotations, root)) in frames.enumerate() {
        pose.rotations.clear();
        pose.rotations.extend_from_slice(rotations);
        pose.root = root;
        resampler.push(i as f64 / rate_in, &pose, &mut scratch, |_, pose| on_frame(pose))?;
    }
    Ok(())
}
