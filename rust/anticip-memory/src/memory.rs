//! One performer: what the model says, mixed with what followed earlier moments like this one.

use std::hint::black_box;

use anticip_motion::features::RATE;
use anticip_motion::twin::body::Rotations;

use crate::key::{DELAY_0, DELAY_20, DELAY_60, DELAY_160, MEAN_1S, MEAN_4S, Twin, parameters};
use crate::learn::{FeatureExtractor, FrameFeatures, LATE, Learner, Taught, moments_of};
use crate::mixing::{ExpertValues, Mixing, Table};
use crate::nearest::{NEAREST, Near, Search};
use crate::store::{Origin, Store};
use crate::{HORIZONS, MemoryError, PARAMETER_COUNT, Place};

/// How many horizons the model has: now, 40, 100, 200 and 400 ms.
pub const MODEL_HORIZONS: usize = 5;

/// The parameters that a model says, at its horizons.
pub type ModelRows = [[f32; MODEL_HORIZONS]; PARAMETER_COUNT];

const H: usize = HORIZONS.len();
/// The first of the model's horizons that is mixed; all after it are.
const FIRST_MIXED: usize = MODEL_HORIZONS - H;
/// What part of the correction at the first mixed horizon those before it get: what was best on strangers.
const BEFORE: [f64; FIRST_MIXED] = [0.4, 0.6];
/// Squared distance under which moments are alike, whatever the nearest is.
const ALIKE: f64 = 0.001;

/// What the memory says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Recalled {
    /// Mean of the parameters that followed the nearest moments.
    followed: Table,
    /// Mean of the parameters in these moments, as the undelayed twin heard them.
    then: [f32; PARAMETER_COUNT],
}

/// What was rehearsed at a place.
#[derive(Debug, Clone, Copy, Default)]
struct Placed {
    followed: [[f64; PARAMETER_COUNT]; H],
    there: [f64; PARAMETER_COUNT],
}

/// What holds after a frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MixedForecast {
    /// The parameters at the model's horizons, 0..1.
    pub parameters: ModelRows,
    /// What share of it is forecast, by the model or from memory, rather than held, 0..1.
    pub trust: Table,
}

/// One performer: the memory of what was done before, and the stream that reads it and adds to it.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    /// Names of the takes that were rehearsed; those learned since are numbered on.
    names: Vec<String>,
    take: u32,
    learning: bool,
    extractor: FeatureExtractor,
    learner: Learner,
    /// The newest frame, until it is learned from.
    unlearned: Option<FrameFeatures>,
    search: Search,
    mixing: Mixing,
    /// What all but the model say of the newest frame.
    expert_values: [[ExpertValues; H]; PARAMETER_COUNT],
    now: [f64; PARAMETER_COUNT],
    /// Nothing where fewer than twelve moments are known.
    recalled: Option<Recalled>,
    /// How sure the place of the newest frame is, 0..1.
    sure: f64,
}

impl Memory {
    /// A performer of whom nothing is known, with room for `capacity` moments, one for every 40 ms.
    ///
    /// # Errors
    /// A capacity out of range.
    pub fn new(capacity: usize) -> Result<Self, MemoryError> {
        Ok(Self {
            store: Store::new(capacity)?,
            names: Vec::new(),
            take: 0,
            learning: true,
            extractor: FeatureExtractor::default(),
            learner: Learner::default(),
            unlearned: None,
            search: Search::default(),
            mixing: Mixing::new(LATE),
            expert_values: Default::default(),
            now: [0.0; PARAMETER_COUNT],
            recalled: None,
            sure: 0.0,
        })
    }

    /// What is remembered.
    #[must_use]
    pub fn store(&mut self) -> &Store {
        self.learn();
        &self.store
    }

    /// Names of the takes that were rehearsed, by number.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether what is played is remembered.
    #[must_use]
    pub fn learning(&self) -> bool {
        self.learning
    }

    /// Says whether what is played from here on is remembered. What is known is looked at either way.
    pub fn set_learning(&mut self, learning: bool) {
        self.learn();
        self.learning = learning;
    }

    /// Takes the next frame and what the model says in it, if there is one; `place` is where in what was rehearsed the
    /// performer is, by the number of the take, if that is known.
    pub fn push(
        &mut self,
        pose: &Rotations,
        model: Option<&ModelRows>,
        place: Option<&Place>,
    ) -> MixedForecast {
        self.learn();
        self.mixing.weigh();
        let features = self.extractor.push(pose);
        self.recalled = features.key.and_then(|key| {
            let near = self.search.find(&self.store, &key);
            (near.len() == NEAREST).then(|| recall(&self.store, near))
        });
        self.now = features.twins[DELAY_20];
        let placed = place
            .filter(|place| place.trust.is_finite())
            .and_then(|place| Some((self.placed(place)?, place.trust.clamp(0.0, 1.0))));
        self.sure = placed.map_or(0.0, |(_, trust)| trust);
        self.expert_values = self.listen(&features.twins, placed.map(|(found, _)| found));
        let forecast = self.imagine(model);
        for (p, rows) in model.into_iter().flatten().enumerate() {
            for (h, row) in rows[FIRST_MIXED..].iter().enumerate() {
                self.expert_values[p][h] =
                    self.mixing
                        .with_model(p, h, &self.expert_values[p][h], Some(f64::from(*row)));
            }
        }
        let mixed = forecast
            .parameters
            .map(|rows| std::array::from_fn(|h| rows[FIRST_MIXED + h]));
        self.mixing.keep(&self.expert_values, &mixed);
        self.unlearned = Some(features);
        forecast
    }

    /// Learns from the newest frame: for who has time before the next one, which does so otherwise. What is said is
    /// the same either way.
    pub fn learn(&mut self) {
        if let Some(features) = self.unlearned.take() {
            let note = note(&mut self.store, &mut self.mixing, self.take);
            self.learner.push(&features, self.learning, note);
        }
    }

    /// What would hold if the model said this of the newest frame, or of a body that is carried on from it; nothing
    /// changes.
    #[must_use]
    pub fn imagine(&self, model: Option<&ModelRows>) -> MixedForecast {
        let mut forecast = MixedForecast::default();
        for p in 0..PARAMETER_COUNT {
            let rows = model.map(|rows| rows[p].map(f64::from));
            for h in 0..H {
                let model = rows.map(|row| row[FIRST_MIXED + h]);
                let expert_values = self.mixing.with_model(p, h, &self.expert_values[p][h], model);
                let (mixed, trust) = self.mixing.mix(p, h, &expert_values, self.sure);
                forecast.parameters[p][FIRST_MIXED + h] = mixed as f32;
                forecast.trust[p][h] = trust as f32;
            }
            // Without a model what is now stands for it.
            let start = rows.unwrap_or([self.now[p]; MODEL_HORIZONS]);
            let correction = f64::from(forecast.parameters[p][FIRST_MIXED]) - start[FIRST_MIXED];
            for (h, share) in BEFORE.into_iter().enumerate() {
                forecast.parameters[p][h] = (start[h] + share * correction).clamp(0.0, 1.0) as f32;
            }
        }
        forecast
    }

    /// Runs what [`Self::push`] runs, on scratch states, and throws away what became of `pose`: so that the next frame
    /// finds it in the caches. Says what [`Self::imagine`] does.
    #[must_use]
    pub fn prewarm(&self, pose: &Rotations, model: Option<&ModelRows>) -> MixedForecast {
        if let Some(key) = self.extractor.clone().push(pose).key {
            black_box(self.search.clone().find(&self.store, &key));
        }
        self.imagine(model)
    }

    /// What was rehearsed at a place, and what followed it there at the tempo of now.
    fn placed(&self, place: &Place) -> Option<Placed> {
        let take = u32::try_from(place.take).ok()?;
        let (frame, tempo) = (place.seconds * RATE, place.tempo.clamp(0.0, 2.0));
        let mut placed = Placed {
            there: self.store.parameters(take, frame)?,
            ..Placed::default()
        };
        for (followed, ahead) in placed.followed.iter_mut().zip(HORIZONS) {
            *followed = self.store.parameters(take, frame + tempo * ahead as f64)?;
        }
        Some(placed)
    }

    /// What everybody but the model says.
    fn listen(&self, twins: &Twin, placed: Option<Placed>) -> [[ExpertValues; H]; PARAMETER_COUNT] {
        std::array::from_fn(|p| {
            std::array::from_fn(|h| {
                let followed = self.recalled.map(|found| f64::from(found.followed[p][h]));
                let change = self
                    .recalled
                    .map(|found| f64::from(found.followed[p][h] - found.then[p]));
                let now = twins[DELAY_0][p];
                [
                    None,
                    None,
                    followed,
                    change.map(|change| (now + change).clamp(0.0, 1.0)),
                    placed.map(|found| found.followed[h][p]),
                    placed.map(|found| (now + found.followed[h][p] - found.there[p]).clamp(0.0, 1.0)),
                    Some(twins[DELAY_20][p]),
                    Some(twins[DELAY_60][p]),
                    Some(twins[DELAY_160][p]),
                    Some(twins[MEAN_1S][p]),
                    Some(twins[MEAN_4S][p]),
                    Some(0.5 * (twins[DELAY_20][p] + twins[MEAN_4S][p])),
                ]
            })
        })
    }

    /// The take ends here, the next frame begins another. What is known stays, and so does what was learned of who
    /// says best what comes.
    pub fn reset(&mut self) {
        self.learn();
        self.learner
            .finish(note(&mut self.store, &mut self.mixing, self.take));
        self.take += 1;
        self.restart();
    }

    fn restart(&mut self) {
        self.extractor.reset();
        self.search.reset();
        self.mixing.restart();
        self.expert_values = Default::default();
        self.recalled = None;
        self.sure = 0.0;
    }

    /// Remembers a whole take for good, under a name. The stream is not touched.
    ///
    /// # Errors
    /// No room for it, or moments that were learned from the stream and would not be the newest any more.
    pub fn rehearse(&mut self, name: &str, take: &[Rotations]) -> Result<(), MemoryError> {
        self.learn();
        if self.store.len() > self.store.rehearsed() {
            return Err(MemoryError::Played);
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.store.room(self.store.rehearsed() + moments_of(take.len()))?;
        let (mut extractor, mut learner) = (FeatureExtractor::default(), Learner::default());
        let store = &mut self.store;
        let mut tell = |taught: Taught| {
            if let Some((frame, key, followed)) = taught.moment {
                store.learn(&key, &followed, origin(number, frame));
            }
        };
        for pose in take {
            learner.push(&extractor.push(pose), true, &mut tell);
        }
        learner.finish(&mut tell);
        self.store.keep();
        self.names.push(name.to_owned());
        self.take = self.take.max(number + 1);
        Ok(())
    }

    /// Fills the memory, in place of all that it has, with what was rehearsed before: takes are numbers of `names`.
    ///
    /// # Errors
    /// What [`Store::restore`] refuses, or a take without a name.
    pub fn restore(
        &mut self,
        names: Vec<String>,
        keys: &[i16],
        followed: &[u16],
        origins: &[Origin],
    ) -> Result<(), MemoryError> {
        if let Some(origin) = origins.iter().find(|origin| origin.take as usize >= names.len()) {
            return Err(MemoryError::Option {
                option: "takes",
                expected: "numbers of the names",
                given: origin.take.to_string(),
            });
        }
        self.learn();
        self.store.restore(keys, followed, origins)?;
        self.learner.forget();
        self.take = self.take.max(u32::try_from(names.len()).unwrap_or(u32::MAX));
        self.names = names;
        self.search.reset();
        Ok(())
    }

    /// Forgets what was learned from the stream; `rehearsed`, what was rehearsed as well.
    pub fn clear(&mut self, rehearsed: bool) {
        self.learn();
        self.learner.forget();
        self.store.clear(rehearsed);
        if rehearsed {
            self.names.clear();
        }
        self.search.reset();
        self.recalled = None;
    }
}

/// What becomes of what is known late: who said it is judged, and what is learned of the take is remembered.
fn note(store: &mut Store, mixing: &mut Mixing, take: u32) -> impl FnMut(Taught) {
    move |taught| {
        mixing.judge(taught.frame, &taught.parameters);
        if let Some((frame, key, followed)) = taught.moment {
            store.learn(&key, &followed, origin(take, frame));
        }
    }
}

fn origin(take: u32, frame: usize) -> Origin {
    Origin {
        take,
        frame: u32::try_from(frame).unwrap_or(u32::MAX),
    }
}

/// What followed the nearest moments, the nearer the heavier.
fn recall(store: &Store, near: &[Near]) -> Recalled {
    let least = f64::from(near[0].distance);
    let weigh = |near: &Near| (-f64::from(near.distance) / (least + ALIKE)).exp();
    let total: f64 = near.iter().map(weigh).sum();
    let (mut followed, mut then) = ([[0.0; PARAMETER_COUNT]; H], [0.0; PARAMETER_COUNT]);
    for moment in near {
        let weight = weigh(moment) / total;
        let rows = store.followed(moment.slot).as_chunks::<PARAMETER_COUNT>().0;
        for (h, row) in rows.iter().enumerate() {
            for (p, &value) in row.iter().enumerate() {
                followed[h][p] += weight * (f64::from(value) / f64::from(u16::MAX));
            }
        }
        for (sum, value) in then.iter_mut().zip(parameters(&store.key(moment.slot))) {
            *sum += weight * f64::from(value);
        }
    }
    Recalled {
        followed: std::array::from_fn(|p| std::array::from_fn(|h| followed[h][p] as f32)),
        then: then.map(|value| value as f32),
    }
}
