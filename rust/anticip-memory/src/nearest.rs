//! The nearest earlier moments, found with a bounded amount of work a frame.
//!
//! A moment that was near a frame ago is still near, or the one after it is: the best of the last frame and their
//! neighbours in time are compared again. Beside them the memory is swept, so much a frame, by sketches of every second
//! moment; what a sketch does not rule out joins the best. A memory of a few minutes is swept whole in every frame.

use pulp::Arch;

use crate::key::{Key, Split, UNIT};
use crate::sketch::{self, sketch};
use crate::store::{COARSE, Store};

/// How many moments answer.
pub(crate) const NEAREST: usize = 12;
/// How many are looked at again in the next frame.
const POOL: usize = 48;
/// Sketches that are compared in a frame.
const SWEEP: usize = 6144;
/// Of those that are not ruled out, how many keys are compared in a frame.
const BUDGET: usize = 128;

/// A moment and its squared distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Near {
    pub(crate) slot: usize,
    pub(crate) distance: f32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// The best of the last frame, nearest first.
    best: Vec<Near>,
    /// Where the sweep goes on.
    at: usize,
    slots: Vec<usize>,
    hits: Vec<(i32, usize)>,
}

impl Search {
    /// Forgets what was near.
    pub(crate) fn reset(&mut self) {
        self.best.clear();
        self.at = 0;
    }

    /// The nearest moments to `key`, nearest first, at most [`NEAREST`].
    #[inline(never)] // One piece of code: that which was prewarmed.
    pub(crate) fn find(&mut self, store: &Store, key: &Key) -> &[Near] {
        Arch::new().dispatch(|| self.look(store, key));
        &self.best[..self.best.len().min(NEAREST)]
    }

    /// Leaves them in `best`.
    #[inline(always)]
    fn look(&mut self, store: &Store, key: &Key) {
        let split = Split::of(key);
        self.follow(store, &split);
        self.sweep(store, key);
        for (apart, slot) in self.hits.drain(..) {
            if apart > limit(&self.best) {
                break;
            }
            let distance = store.distance(&split, slot);
            let at = self.best.partition_point(|near| near.before(distance, slot));
            if self.best.get(at).is_none_or(|near| near.slot != slot) {
                self.best.insert(at, Near { slot, distance });
                self.best.truncate(POOL);
            }
        }
    }

    /// Compares the best of the last frame and their neighbours in time with `key`.
    #[inline(always)]
    fn follow(&mut self, store: &Store, key: &Split) {
        self.slots.clear();
        for near in &self.best {
            self.slots
                .extend(near.slot.saturating_sub(1)..(near.slot + 2).min(store.len()));
        }
        self.slots.sort_unstable();
        self.slots.dedup();
        self.best.clear();
        self.best.extend(self.slots.iter().map(|&slot| Near {
            slot,
            distance: store.distance(key, slot),
        }));
        self.best
            .sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.slot.cmp(&b.slot)));
        self.best.truncate(POOL);
    }

    /// Leaves in `hits` what the next stretch of sketches does not rule out, nearest first.
    #[inline(always)]
    fn sweep(&mut self, store: &Store, key: &Key) {
        let sketches = store.sketches();
        let (mine, limit) = (sketch(key), limit(&self.best));
        let mut left = SWEEP.min(sketches.len());
        self.hits.clear();
        while left > 0 {
            if self.at >= sketches.len() {
                self.at = 0;
            }
            let stretch = &sketches[self.at..(self.at + left).min(sketches.len())];
            for (i, other) in stretch.iter().enumerate() {
                let apart = sketch::distance(&mine, other);
                if apart < limit {
                    self.hits.push((apart, (self.at + i) * COARSE));
                }
            }
            self.at += stretch.len();
            left -= stretch.len();
        }
        if self.hits.len() > BUDGET {
            self.hits.select_nth_unstable(BUDGET);
            self.hits.truncate(BUDGET);
        }
        self.hits.sort_unstable();
    }
}

impl Near {
    /// Whether it stands before another; of two that are as near, the earlier slot does.
    fn before(&self, distance: f32, slot: usize) -> bool {
        (self.distance, self.slot) < (distance, slot)
    }
}

/// The squared distance of sketches, in units of keys, beyond which a moment is none of the nearest.
fn limit(best: &[Near]) -> i32 {
    let farthest = best
        .get(NEAREST - 1)
        .map_or(f64::INFINITY, |near| f64::from(near.distance));
    // Rounding can make sketches a little farther apart than their keys.
    (farthest * UNIT * UNIT * 1.01 + 1000.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KEY_SIZE;
    use crate::store::{FOLLOWED, Origin};

    /// A body that swings about: its parameters earlier and later are much alike, and so are both its postures.
    fn walk(seed: f64, moment: usize) -> Key {
        std::array::from_fn(|i| {
            let (channel, ago, size) = if i < 56 {
                (i % 8, (i / 8) as f64 * 0.06, 600.0)
            } else {
                (8 + (i - 56) % 21, 0.12 * ((i - 56) / 63) as f64, 150.0)
            };
            let (t, speed) = (moment as f64 * 0.04 - ago, 0.3 + 0.17 * (channel % 7) as f64);
            let phase = seed * (channel * channel % 91) as f64;
            (size * ((speed * t + phase).sin() + 0.5 * (0.37 * speed * t + 2.0 * phase).cos())) as i16
        })
    }

    fn filled(moments: usize) -> Store {
        let mut store = Store::new(moments).unwrap();
        for moment in 0..moments {
            assert!(store.learn(&walk(1.0, moment), &[0; FOLLOWED], Origin::default()));
        }
        store
    }

    fn brute(store: &Store, key: &Key) -> Vec<usize> {
        let mut all: Vec<_> = (0..store.len())
            .map(|slot| (store.distance(&Split::of(key), slot), slot))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.into_iter().take(NEAREST).map(|(_, slot)| slot).collect()
    }

    fn recall(store: &Store, key: impl Fn(usize) -> Key) -> f64 {
        let mut search = Search::default();
        let (mut found, mut asked) = (0, 0);
        for frame in 0..400 {
            let key = key(frame);
            let near: Vec<usize> = search.find(store, &key).iter().map(|near| near.slot).collect();
            if frame >= 20 {
                let exact = brute(store, &key);
                found += exact.iter().filter(|slot| near.contains(slot)).count();
                asked += exact.len();
            }
        }
        found as f64 / asked as f64
    }

    #[test]
    fn what_was_shown_is_found_again() {
        let store = filled(20_000);
        let shown = recall(&store, |frame| walk(1.0, 3000 + frame / 2));
        let other = recall(&store, |frame| walk(1.2, frame / 2));
        assert!(shown > 0.98, "{shown}");
        assert!(other > 0.9, "{other}");
    }

    #[test]
    fn few_moments_are_all_looked_at() {
        let store = filled(NEAREST);
        let mut search = Search::default();
        let key: Key = [0; KEY_SIZE];
        search.find(&store, &key);
        assert_eq!(search.find(&store, &key).len(), NEAREST);
        search.reset();
        assert!(search.find(&Store::new(5).unwrap(), &key).is_empty());
    }
}
