//! What is said does not depend on when the memory learns.

use anticip_memory::{
    Memory, MixedForecast, ModelRows, Origin, Rotations, TEACHER_REACH, TEACHER_START, Teacher,
};
use proptest::prelude::*;

/// A body whose joints swing, each at its own pace.
fn pose(frame: usize) -> Rotations {
    let t = frame as f64 / 50.0;
    std::array::from_fn(|joint| {
        let pace = 1.7 + 0.37 * (joint % 5) as f64;
        let (sin, cos) = (0.3 * (pace * t).sin() + 0.1 * (joint as f64 + 3.1 * t).sin()).sin_cos();
        [cos, 0.6 * sin, 0.0, 0.8 * sin]
    })
}

fn says(frame: usize) -> ModelRows {
    std::array::from_fn(|p| std::array::from_fn(|h| (0.1 * (frame + 3 * p + h) as f32).sin().abs()))
}

#[derive(Debug, Clone)]
enum Act {
    /// So many frames, with or without a model.
    Play(usize, bool),
    Imagine(usize),
    Learning(bool),
    Reset,
    Clear,
    Rehearse,
    Count,
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1_usize..60, any::<bool>()).prop_map(|(frames, model)| Act::Play(frames, model)),
        2 => (0_usize..99).prop_map(Act::Imagine),
        2 => any::<bool>().prop_map(Act::Learning),
        1 => Just(Act::Reset),
        1 => Just(Act::Clear),
        1 => Just(Act::Rehearse),
        1 => Just(Act::Count),
    ]
}

/// Everything that came out, and what is remembered in the end. `learns` says after which of the calls to learn.
fn said(acts: &[Act], mut learns: impl FnMut() -> bool) -> (Vec<MixedForecast>, Vec<usize>, Vec<Origin>) {
    let mut memory = Memory::new(150).expect("a capacity");
    let (mut said, mut counts) = (Vec::new(), Vec::new());
    let mut frame = 0;
    for act in acts {
        match *act {
            Act::Play(frames, model) => {
                for _ in 0..frames {
                    let rows = says(frame);
                    said.push(memory.push(&pose(frame), model.then_some(&rows), None));
                    frame += 1;
                    if learns() {
                        memory.learn();
                    }
                }
            }
            Act::Imagine(what) => said.push(memory.imagine(Some(&says(what)))),
            Act::Learning(learning) => memory.set_learning(learning),
            Act::Reset => memory.reset(),
            Act::Clear => memory.clear(false),
            Act::Rehearse => {
                let take: Vec<Rotations> = (0..80).map(pose).collect();
                counts.push(usize::from(memory.rehearse("take", &take).is_ok()));
            }
            Act::Count => counts.push(memory.store().len()),
        }
        if learns() {
            memory.learn();
        }
    }
    let store = memory.store();
    let origins = store.in_order().map(|slot| store.origin(slot)).collect();
    (said, counts, origins)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_said_does_not_depend_on_when_it_learns(
        more in prop::collection::vec(acts(), 1..24), when in prop::collection::vec(any::<bool>(), 1..50)
    ) {
        let mut acts = vec![Act::Play(250, true)];
        acts.extend(more);
        let never = said(&acts, || false);
        prop_assert_eq!(&said(&acts, || true), &never);
        let mut turns = when.iter().cycle();
        prop_assert_eq!(&said(&acts, || turns.next().copied().unwrap_or(false)), &never);
    }
}

#[test]
fn the_teacher_speaks_in_time_and_each_take_afresh() {
    let mut teacher = Teacher::default();
    let mut take = || {
        let mut said = Vec::new();
        for frame in 0..300 {
            teacher.push(&pose(frame), |row| said.push(row));
            let wanted = if frame < TEACHER_START {
                0
            } else {
                frame + 1 - TEACHER_REACH
            };
            assert_eq!(said.len(), wanted);
        }
        teacher.finish(|row| said.push(row));
        assert_eq!(said.len(), 300);
        said
    };
    assert_eq!(take(), take());
}
