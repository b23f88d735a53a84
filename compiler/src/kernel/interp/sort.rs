//! Sorted rows, by the merge sort that defines them.

use super::memory::extend;
use super::{Formula, Frame, Memory, Step, for_each_point, needed, value};
use crate::kernel::sort::Sort;

pub(super) fn run(sort: &Sort, memory: &mut Memory) -> Step<()> {
    let order = needed(&sort.load, sort.operands.iter().map(|o| o.value));
    let before = [sort.before];
    let before = Formula::new(&sort.comparator, &before);
    for_each_point(&sort.parallel, &mut Vec::new(), &mut |axes| {
        memory.next_point();
        let mut row: Vec<Vec<u64>> = Vec::new();
        for i in 0..sort.row.extent {
            let mut frame = Frame { axes: axes.clone(), ..Frame::default() };
            frame.axes.push((sort.row.axis, i));
            let mut values = vec![None; sort.load.nodes().len()];
            frame.evaluate(&sort.load, &order, memory, &mut values)?;
            let element = sort.operands.iter().map(|o| Ok(extend(o.mem, value(&values, o.value)?)));
            row.push(element.collect::<Step<_>>()?);
        }
        let sorted = merge_sort(row, &mut |x, y| {
            let args: Vec<u64> = x.iter().zip(y).flat_map(|(&a, &b)| [a, b]).collect();
            Ok(before.of(&args, memory)?[0] != 0)
        })?;
        for (i, element) in (0..sort.keep).zip(sorted) {
            let mut frame = Frame { axes: axes.clone(), ..Frame::default() };
            frame.axes.push((sort.row.axis, i));
            for (o, v) in sort.operands.iter().zip(element) {
                if let Some((buffer, ix)) = &o.store {
                    memory.store(*buffer, o.mem, frame.index(ix, &[])?, v)?;
                }
            }
        }
        Ok(())
    })
}

type Element = Vec<u64>;

/// Runs of one element, then of two, of four: the right run gives only what comes before the left one's.
fn merge_sort(mut row: Vec<Element>, before: &mut impl FnMut(&Element, &Element) -> Step<bool>) -> Step<Vec<Element>> {
    let mut width = 1;
    while width < row.len() {
        let mut merged = Vec::with_capacity(row.len());
        for run in row.chunks(2 * width) {
            let (left, right) = run.split_at(width.min(run.len()));
            let (mut i, mut j) = (0, 0);
            while i < left.len() && j < right.len() {
                if before(&right[j], &left[i])? {
                    merged.push(right[j].clone());
                    j += 1;
                } else {
                    merged.push(left[i].clone());
                    i += 1;
                }
            }
            merged.extend(left[i..].iter().chain(&right[j..]).cloned());
        }
        row = merged;
        width *= 2;
    }
    Ok(row)
}
