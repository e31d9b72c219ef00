//! The window: its states, its centre and radius, and the nearest past states.
//!
//! Every distance that decides something is computed in full; bounds only exclude those that cannot. From one frame to
//! the next the newest state moves by `step` and the centre by `shift`, so by the triangle inequality every state
//! keeps a lower bound on its distance to the newest state and an upper bound on its distance to the centre, at one
//! addition for each frame. Where these bounds are too wide, sketches give better ones for states in R^d, and the
//! first terms of a series for poses.

use std::ops::Range;

use crate::coarse::USEFUL;
use crate::sketch::Sketch;
use crate::space::Space;

/// Bounds are widened by this at each use and each update, far more than rounding can change them.
const SLACK: f64 = 1e-12;

/// A nearest past state.
#[derive(Copy, Clone, Debug)]
struct Neighbour {
    /// Distance in units of the grid, rounded to an integer.
    key: f64,
    /// Frames before the newest.
    age: usize,
}

/// States of the last frames and bounds on their distances.
#[derive(Clone, Debug)]
pub(crate) struct Window<S> {
    pub(crate) space: S,
    /// Most frames held; `None` for all.
    limit: Option<usize>,
    /// Frames pushed so far.
    frames: usize,
    states: Vec<f64>,
    /// Coarse forms of the states (poses only).
    coarse: Vec<i16>,
    /// Lower bounds on the distance to the newest state, by slot.
    lower: Vec<f64>,
    /// Upper bounds on the distance to the centre, by slot.
    upper: Vec<f64>,
    /// Whether the state of the next frame is identical, by slot.
    repeated: Vec<bool>,
    centre: Vec<f64>,
    last_centre: Vec<f64>,
    radius: f64,
    offset: f64,
    /// The frame that was farthest from the centre last time.
    farthest: usize,
    neighbours: Vec<Neighbour>,
    /// Frames of the last search's neighbours.
    seeds: Vec<usize>,
    k: usize,
    sketch: Option<Sketch>,
    /// Frame at which the sketches were last drawn again.
    redrawn_at: usize,
    /// The smallest sketched squared distances, in order.
    best: Vec<i64>,
}

impl<S: Space> Window<S> {
    pub(crate) fn new(space: S, limit: Option<usize>, k: usize) -> Self {
        let (n, len) = (limit.unwrap_or(0), space.state_len());
        Self {
            limit,
            frames: 0,
            states: vec![0.0; n * len],
            coarse: vec![0; n * space.coarse_len()],
            lower: vec![0.0; n],
            upper: vec![0.0; n],
            repeated: vec![false; n],
            centre: vec![0.0; len],
            last_centre: vec![0.0; len],
            radius: 0.0,
            offset: 0.0,
            farthest: 0,
            neighbours: Vec::with_capacity(k + 1),
            seeds: Vec::with_capacity(k),
            k,
            sketch: S::IS_EUCLIDEAN.then(|| Sketch::new(len, n)).flatten(),
            redrawn_at: 0,
            best: Vec::with_capacity(k + 1),
            space,
        }
    }

    pub(crate) fn reset(&mut self) {
        self.frames = 0;
        self.space.clear();
        self.neighbours.clear();
        if self.limit.is_none() {
            self.states.clear();
            self.coarse.clear();
            self.lower.clear();
            self.upper.clear();
            self.repeated.clear();
        }
    }

    /// Frames in the window.
    pub(crate) fn len(&self) -> usize {
        self.limit.map_or(self.frames, |m| self.frames.min(m))
    }

    /// Slot of a frame that is in the window.
    pub(crate) fn slot(&self, frame: usize) -> usize {
        self.limit.map_or(frame, |m| frame % m)
    }

    /// Slots of the frames `first..end`, all in the window: at most two runs, each with its first frame.
    fn spans(&self, first: usize, end: usize) -> [(Range<usize>, usize); 2] {
        let n = end - first;
        let at = if n == 0 { 0 } else { self.slot(first) };
        let run = n.min(self.limit.map_or(n, |m| m - at));
        [(at..at + run, first), (0..n - run, first + run)]
    }

    /// The state `age` frames before the newest.
    pub(crate) fn state(&self, age: usize) -> &[f64] {
        let len = self.space.state_len();
        let at = self.slot(self.frames - 1 - age) * len;
        &self.states[at..at + len]
    }

    /// Largest distance of a state in the window from its centre.
    pub(crate) fn radius(&self) -> f64 {
        self.radius
    }

    /// Distance of the newest state from the centre.
    pub(crate) fn offset(&self) -> f64 {
        self.offset
    }

    /// Ages of the neighbours of the last search, nearest first.
    pub(crate) fn neighbours(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.neighbours.iter().map(|n| n.age)
    }

    /// Reads a number from every cache line that the next frame is likely to need; the sum has no meaning.
    pub(crate) fn touch(&self) -> f64 {
        let len = self.space.state_len();
        let near = self.neighbours.iter().map(|n| self.slot(self.frames - 1 - n.age));
        let states = near.flat_map(|slot| self.states[slot * len..(slot + 1) * len].iter().step_by(8));
        let bounds = self.lower.iter().chain(&self.upper).step_by(8);
        let coarse: i64 = self.coarse.iter().step_by(32).copied().map(i64::from).sum();
        states.chain(bounds).sum::<f64>() + coarse as f64
    }

    /// Adds a state, at the distance `step` from the last one, and updates centre and radius.
    #[inline(always)]
    pub(crate) fn push(&mut self, state: &[f64], step: f64) {
        let len = self.space.state_len();
        let frame = self.frames;
        let slot = self.slot(frame);
        if self.limit.is_none() {
            self.states.extend_from_slice(state);
            self.coarse.resize((slot + 1) * self.space.coarse_len(), 0);
            self.lower.push(0.0);
            self.upper.push(0.0);
            self.repeated.push(false);
        } else {
            if self.limit.is_some_and(|m| frame >= m) {
                self.space.leave(&self.states[slot * len..(slot + 1) * len]);
            }
            self.states[slot * len..(slot + 1) * len].copy_from_slice(state);
        }
        let coarse = self.space.coarse_len();
        self.space
            .coarsen(state, &mut self.coarse[slot * coarse..(slot + 1) * coarse]);
        self.repeated[slot] = false;
        if frame > 0 && self.state(0) == state {
            let last = self.slot(frame - 1);
            self.repeated[last] = true;
        }
        self.space.enter(state);
        self.frames += 1;
        if self.space.sums_are_worn(state) {
            self.space.clear();
            for frame in self.frames - self.len()..self.frames {
                let at = self.slot(frame) * len;
                self.space.enter(&self.states[at..at + len]);
            }
        }
        std::mem::swap(&mut self.centre, &mut self.last_centre);
        self.space.centre(self.len(), state, &mut self.centre);
        let shift = if frame == 0 {
            0.0
        } else {
            self.space.dist2(&self.centre, &self.last_centre).sqrt()
        };
        self.age_bounds(step, shift);
        self.lower[slot] = 0.0;
        self.upper[slot] = f64::INFINITY;
        self.draw(state);
        self.find_radius();
    }

    /// Sketches the newest state; all states if it is out of range, or if the sketches have become too coarse (at most
    /// once a window for that reason).
    #[inline(always)]
    fn draw(&mut self, state: &[f64]) {
        let Some(sketch) = &mut self.sketch else { return };
        let newest = self.frames - 1;
        if newest == 0 {
            sketch.restart(state);
            self.redrawn_at = 0;
        }
        let first = self.limit.map_or(0, |m| self.frames.saturating_sub(m));
        let slot = |frame: usize| self.limit.map_or(frame, |m| frame % m);
        let len = state.len();
        let mut redraw = false;
        if self.limit.is_some_and(|m| newest - self.redrawn_at >= m) && sketch.is_coarse(self.radius) {
            self.redrawn_at = newest;
            sketch.restart(state);
            for frame in first..newest {
                let at = slot(frame) * len;
                sketch.widen(&self.states[at..at + len]);
            }
            redraw = true;
        }
        if sketch.widen(state) || redraw {
            for frame in first..newest {
                let at = slot(frame);
                sketch.enter(at, &self.states[at * len..(at + 1) * len]);
            }
        }
        sketch.enter(slot(newest), state);
    }

    /// Widens all bounds by the movement of the newest state and of the centre.
    #[inline(always)]
    fn age_bounds(&mut self, step: f64, shift: f64) {
        let step = step * (1.0 + SLACK) + S::ABS_ERROR;
        let shift = shift * (1.0 + SLACK) + S::ABS_ERROR;
        for (lower, upper) in self.lower.iter_mut().zip(&mut self.upper) {
            *lower = *lower * (1.0 - 1e-15) - step;
            *upper = *upper * (1.0 + 1e-15) + shift;
        }
    }

    #[inline(always)]
    fn at(&self, slot: usize) -> &[f64] {
        let len = self.space.state_len();
        &self.states[slot * len..(slot + 1) * len]
    }

    /// Measures the distance to the centre; `None` if a bound shows that it is at most `enough`.
    #[inline(always)]
    fn measure_offset(&mut self, slot: usize, enough: f64) -> Option<f64> {
        if let Some((_, high)) = self.space.dist2_bounds(self.at(slot), &self.centre) {
            let upper = high.sqrt() * (1.0 + SLACK) + S::ABS_ERROR;
            if upper <= enough {
                self.upper[slot] = upper;
                return None;
            }
        }
        let d = self.space.dist2(self.at(slot), &self.centre).sqrt();
        self.upper[slot] = d * (1.0 + SLACK) + S::ABS_ERROR;
        Some(d)
    }

    #[inline(always)]
    fn find_radius(&mut self) {
        let newest = self.frames - 1;
        let first = self.frames - self.len();
        let last_farthest = std::mem::replace(&mut self.farthest, newest);
        self.offset = self.measure_offset(self.slot(newest), -1.0).unwrap_or(0.0);
        self.radius = self.offset;
        // The farthest state of last time is likely to be it again, which excludes most others.
        if last_farthest >= first && last_farthest < newest {
            self.consider_radius(last_farthest);
        }
        if let Some(frame) = self.sketch_offsets(first, newest) {
            self.consider_radius(frame);
        }
        for (slots, frame) in self.spans(first, newest) {
            for (i, slot) in slots.enumerate() {
                if self.upper[slot] > self.radius && !self.repeated[slot] {
                    self.consider_radius(frame + i);
                }
            }
        }
    }

    /// Tightens the bounds on the distances to the centre that could be the radius; returns the frame that seems
    /// farthest.
    #[inline(always)]
    fn sketch_offsets(&mut self, first: usize, newest: usize) -> Option<usize> {
        let spans = self.spans(first, newest);
        let sketch = self.sketch.as_mut()?;
        let mut farthest = None;
        let mut max = -1;
        let mut has_query = false;
        for (slots, frame) in spans {
            for (i, slot) in slots.enumerate() {
                if self.upper[slot] <= self.radius || self.repeated[slot] {
                    continue;
                }
                if !has_query {
                    sketch.query_point(&self.centre);
                    has_query = true;
                }
                let d = sketch.measure(slot);
                self.upper[slot] = sketch.upper(d).min(self.upper[slot]);
                if d > max {
                    (max, farthest) = (d, Some(frame + i));
                }
            }
        }
        farthest
    }

    #[inline(always)]
    fn consider_radius(&mut self, frame: usize) {
        if let Some(d) = self.measure_offset(self.slot(frame), self.radius)
            && d > self.radius
        {
            (self.radius, self.farthest) = (d, frame);
        }
    }

    /// Measures the distance to the newest state; `None` if a bound shows that it is above `limit`.
    #[inline(always)]
    fn measure_newest(&mut self, slot: usize, limit: f64) -> Option<f64> {
        let newest = self.slot(self.frames - 1);
        let len = self.space.coarse_len();
        if len > 0 && limit > USEFUL && limit < f64::INFINITY {
            let coarse = |slot: usize| &self.coarse[slot * len..(slot + 1) * len];
            let least = self.space.least_dist2(coarse(slot), coarse(newest));
            let lower = least.sqrt() * (1.0 - SLACK) - S::ABS_ERROR;
            if lower > limit {
                self.lower[slot] = lower;
                return None;
            }
        }
        if let Some((low, _)) = self.space.dist2_bounds(self.at(slot), self.at(newest)) {
            let lower = low.sqrt() * (1.0 - SLACK) - S::ABS_ERROR;
            if lower > limit {
                self.lower[slot] = lower;
                return None;
            }
        }
        let d = self.space.dist2(self.at(slot), self.at(newest)).sqrt();
        self.lower[slot] = d * (1.0 - SLACK) - S::ABS_ERROR;
        Some(d)
    }

    /// Finds the `k` nearest states at least `far` frames ago, ordered by distance rounded to the grid and then by
    /// age, and returns the smallest distance to a state at least `near` frames ago (`near <= far`).
    #[inline(always)]
    pub(crate) fn search(&mut self, near: usize, far: usize, grid: f64) -> Option<f64> {
        let newest = self.frames - 1;
        let first = self.frames - self.len();
        let far_end = first.max(self.frames.saturating_sub(far));
        let near_end = far_end.max(self.frames.saturating_sub(near));
        // The successors of the last neighbours are probably near: the k-th nearest is not farther than these.
        self.seeds.clear();
        // The ages are still those of the last frame.
        self.seeds.extend(self.neighbours.iter().map(|n| newest - n.age));
        self.neighbours.clear();
        let mut threshold = f64::INFINITY;
        if self.seeds.len() == self.k {
            threshold = self.measure_seeds() + 2.0 * grid;
        }
        threshold = self.sketch_distances(first, far_end, threshold, 2.0 * grid);
        let mut nearest = f64::INFINITY;
        // Newest first, because of states at the same distance the first one stays.
        let [old, recent] = self.spans(first, far_end);
        for (slots, frame) in [recent, old] {
            let mut last = None;
            for (i, slot) in slots.enumerate().rev() {
                let known = last.take().filter(|_| self.repeated[slot]);
                if known.is_none() && self.lower[slot] > threshold {
                    continue;
                }
                let measured = match known {
                    Some(d) => Some(d),
                    None => self.measure_newest(slot, threshold),
                };
                let Some(d) = measured else { continue };
                last = Some(d);
                nearest = nearest.min(d);
                self.insert(Neighbour {
                    key: (d / grid).round(),
                    age: newest - frame - i,
                });
                if self.neighbours.len() == self.k {
                    threshold = threshold.min((self.neighbours[self.k - 1].key + 2.0) * grid);
                }
            }
        }
        for (slots, _) in self.spans(far_end, near_end) {
            for slot in slots {
                if self.lower[slot] <= nearest {
                    nearest = self.measure_newest(slot, nearest).unwrap_or(nearest).min(nearest);
                }
            }
        }
        nearest.is_finite().then_some(nearest)
    }

    /// Largest distance of a seed to the newest state, or a close upper bound on it.
    #[inline(always)]
    fn measure_seeds(&mut self) -> f64 {
        let newest = self.slot(self.frames - 1);
        if let Some(sketch) = &mut self.sketch {
            sketch.query_slot(newest);
            let slots = self.seeds.iter().map(|&f| self.limit.map_or(f, |m| f % m));
            let max = slots.map(|slot| sketch.measure(slot)).max();
            return max.map_or(f64::INFINITY, |square| sketch.upper(square));
        }
        let mut max = 0.0f64;
        for i in 0..self.seeds.len() {
            let d = self.measure_newest(self.slot(self.seeds[i]), f64::INFINITY);
            max = max.max(d.unwrap_or(f64::INFINITY));
        }
        max
    }

    /// Tightens the bounds on the distances of the frames `first..end` to the newest state that could be within the
    /// threshold. Returns the threshold, lowered to `margin` above what `k` of them are surely within.
    #[inline(always)]
    fn sketch_distances(&mut self, first: usize, end: usize, threshold: f64, margin: f64) -> f64 {
        let spans = self.spans(first, end);
        let newest = self.slot(self.frames - 1);
        let Some(sketch) = &mut self.sketch else {
            return threshold;
        };
        sketch.query_slot(newest);
        let best = &mut self.best;
        best.clear();
        let mut enough = i64::MAX;
        let (factor, error) = sketch.lower();
        for (slots, _) in spans {
            let first = slots.start;
            let bounds = self.lower[slots.clone()].iter_mut();
            for (i, (lower, &repeated)) in bounds.zip(&self.repeated[slots]).enumerate() {
                if *lower > threshold || repeated {
                    continue;
                }
                let square = sketch.measure(first + i);
                let bound = (square as f64).sqrt() * factor - error;
                *lower = if bound > *lower { bound } else { *lower };
                if square < enough {
                    insert_sorted(best, self.k, square, |a, b| a < b);
                    if best.len() == self.k {
                        enough = best[self.k - 1];
                    }
                }
            }
        }
        if best.len() < self.k {
            return threshold;
        }
        threshold.min(sketch.upper(best[self.k - 1]) + margin)
    }

    #[inline(always)]
    fn insert(&mut self, new: Neighbour) {
        let before = |a: &Neighbour, b: &Neighbour| (a.key, a.age) < (b.key, b.age);
        let full = self.neighbours.len() == self.k;
        if !full || self.neighbours.last().is_some_and(|last| before(&new, last)) {
            insert_sorted(&mut self.neighbours, self.k, new, before);
        }
    }
}

/// Inserts into a short sorted list; replaces the last element if there are `max_len` already.
#[inline(always)]
fn insert_sorted<T: Copy>(list: &mut Vec<T>, max_len: usize, new: T, before: impl Fn(&T, &T) -> bool) {
    if list.len() < max_len {
        list.push(new);
    }
    let mut at = list.len() - 1;
    while at > 0 && before(&new, &list[at - 1]) {
        list[at] = list[at - 1];
        at -= 1;
    }
    list[at] = new;
}
