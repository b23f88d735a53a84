//! Tiles of two axes: elements that lie side by side along one axis and are wanted along the other change places in registers.
//!
//! A tile is a stage with one short sequential loop. Both its loops are written out: for each group of a register's elements along
//! the sequential axis, and each block along the vector axis, what is contiguous along the former is loaded as rows of a square and
//! transposed.

use super::Reg;
use super::select::{Access, Block, Pointer, Selected, Selector, count, load_code};
use crate::codegen::rows::{RowLoop, Width};
use crate::codegen::vector::{Leaves, Partial, Row, Step, Storing, Values, elements};
use crate::kernel::body::{Body, Lane, Mem, NodeId, Op};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Loop, Nest, Stage};
use iced_x86::Code;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Tiles go in registers of 256 bits: squares of eight by eight elements, a cache line being two of them.
const BLOCK: i64 = Width::W256.block();

/// The most elements of a tile.
const MOST_ELEMENTS: i64 = 256;

/// The sequential loop of a stage that is a tile of whole squares.
pub fn tile_of(stage: &Stage) -> Option<Loop> {
    let [inner] = stage.sequential.as_slice() else { return None };
    let plain = stage.accumulators.is_empty() && stage.row_stores.is_empty();
    let squares = inner.extent % BLOCK == 0 && stage.vector.extent % BLOCK == 0;
    let small = inner.extent.checked_mul(stage.vector.extent)? <= MOST_ELEMENTS;
    (plain && squares && small).then_some(*inner)
}

/// The whole tile as one turn; the plan is along both its axes. `None` where some part has no form here, or nothing changes places.
///
/// # Errors
/// What the traversal of the body misses, a fault of ours.
pub(super) fn select(nest: &Nest, row: &RowLoop<'_>, fma: bool) -> Result<Selected, String> {
    let stage = row.stage;
    let Some(inner) = tile_of(stage) else { return Ok(None) };
    let Some(group) = group_of(row, inner) else { return Ok(None) };
    let selector = Selector::new(nest, row, Width::W256, fma);
    let mut square = Square { selector, inner, group, first: 0, block: 0, at: 0, turned: HashMap::new() };
    for first in (0..inner.extent).step_by(group as usize) {
        for block in 0..stage.vector.extent / BLOCK {
            square.turned.clear();
            for at in 0..group {
                (square.first, square.block, square.at) = (first, block, at);
                if elements(&mut square, row).is_none() {
                    return square.selector.fault.map_or(Ok(None), Err);
                }
            }
        }
    }
    let mut selector = square.selector;
    Ok(selector.end().and_then(|turn| selector.finish(Some(turn), None)))
}

/// Elements from one to the next along the sequential axis and along the vector axis.
fn strides(row: &RowLoop<'_>, inner: Loop, ix: &Ix) -> Option<(i64, i64)> {
    Some((row.stride(ix, inner.axis)?, row.stride(ix, row.stage.vector.axis)?))
}

/// How many elements of what changes places a register has; `None` where nothing does, or not all alike.
fn group_of(row: &RowLoop<'_>, inner: Loop) -> Option<i64> {
    let crossing: Vec<Mem> = row
        .loads
        .keys()
        .filter_map(|&id| match &row.stage.body.node(id).op {
            Op::Load(_, mem, ix) => Some((*mem, strides(row, inner, ix))),
            _ => None,
        })
        .filter(|(_, strides)| strides.is_some_and(|(along, across)| along == 1 && across != 1))
        .map(|(mem, _)| mem)
        .collect();
    let group = BLOCK / count(crossing.first()?.lane()) as i64;
    let alike = |mem: &Mem| *mem == Mem::of(mem.lane()) && BLOCK / count(mem.lane()) as i64 == group;
    crossing.iter().all(alike).then_some(group)
}

/// A block along the vector axis, for one of a group of elements along the other.
struct Square<'k> {
    selector: Selector<'k>,
    inner: Loop,
    /// How many elements the group has, the first of it, and which of it is at hand.
    group: i64,
    first: i64,
    at: i64,
    /// The number of the block.
    block: i64,
    /// Of what changes places, a block for each element of the group.
    turned: HashMap<NodeId, Vec<Block>>,
}

impl<'k> Leaves for Square<'k> {
    type Isa = Selector<'k>;

    fn isa(&mut self) -> &mut Selector<'k> {
        &mut self.selector
    }

    fn shape(&self) {}

    fn leaf(&mut self, body: &Body, id: NodeId, _: &Values<Block>) -> Option<Block> {
        let Op::Load(_, mem, ix) = &body.node(id).op else { return None };
        let (element, begin) = (self.first + self.at, self.block * BLOCK);
        match strides(self.selector.row, self.inner, ix)? {
            (along, 1) => self.selector.load(Pointer::Load(id), *mem, element * along + begin),
            (along, 0) => self.selector.broadcast(Pointer::Load(id), *mem, element * along),
            (1, across) => {
                let rows = match self.turned.entry(id) {
                    Entry::Occupied(rows) => rows.into_mut(),
                    Entry::Vacant(none) => {
                        let (group, block) = ((self.first, self.group), (self.block, across));
                        none.insert(self.selector.turned((id, *mem), group, block)?)
                    }
                };
                rows.get(self.at as usize).cloned()
            }
            _ => None,
        }
    }
}

impl Row for Square<'_> {
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Block> {
        self.selector.uniform(body, id)
    }

    fn store(&mut self, s: Storing<'_, Block>, _: &Values<Block>) -> Option<bool> {
        let store = self.selector.row.stage.stores.get(s.number)?;
        let (along, 1) = strides(self.selector.row, self.inner, &store.index)? else { return None };
        let element = (self.first + self.at) * along + self.block * BLOCK;
        self.selector.store_block(Pointer::Store(s.number), store.mem, element, s.value)?;
        Some(false)
    }

    // A tile has no row buffers and folds nothing.

    fn row(&mut self, _: u32) -> Option<Block> {
        None
    }

    fn set_row(&mut self, _: u32, _: &Block) -> Option<()> {
        None
    }

    fn steps(&self, _: usize) -> Vec<Step> {
        Vec::new()
    }

    fn taken(&mut self, _: Step, _: Lane, _: &Block) -> Option<Block> {
        None
    }

    fn partial(&mut self, _: usize, _: Step) -> Option<Partial<Block>> {
        None
    }

    fn set_partial(&mut self, _: usize, _: Step, _: Vec<Block>) -> Option<()> {
        None
    }

    fn shape_of(&self, _: Step) {}
}

impl Selector<'_> {
    /// An element in every place of a block.
    fn broadcast(&mut self, p: Pointer, mem: Mem, element: i64) -> Option<Block> {
        let code = match mem {
            Mem::I32 | Mem::F32 => Code::VEX_Vbroadcastss_ymm_m32,
            Mem::I64 | Mem::F64 => Code::VEX_Vbroadcastsd_ymm_m64,
            _ => return None,
        };
        let from = self.access(p, mem, element, 0)?;
        let r = self.load_at(code, from, false);
        Some(vec![r; count(mem.lane())])
    }

    /// Rows of a group's elements, loaded along the group and turned to lie along the vector axis.
    fn turned(
        &mut self,
        (id, mem): (NodeId, Mem),
        (first, group): (i64, i64),
        (block, across): (i64, i64),
    ) -> Option<Vec<Block>> {
        let mut out = vec![Block::new(); group as usize];
        for square in 0..BLOCK / group {
            let rows: Vec<Reg> = (0..group)
                .map(|row| {
                    let element = (block * BLOCK + square * group + row).checked_mul(across)?.checked_add(first)?;
                    let from: Access = self.access(Pointer::Load(id), mem, element, 0)?;
                    Some(self.load_at(load_code(mem), from, false))
                })
                .collect::<Option<_>>()?;
            let columns = if group == BLOCK { self.transposed_8(&rows) } else { self.transposed_4(&rows) };
            out.iter_mut().zip(columns?).for_each(|(block, r)| block.push(r));
        }
        Some(out)
    }

    /// A square of 64-bit elements.
    fn transposed_4(&mut self, rows: &[Reg]) -> Option<Vec<Reg>> {
        use Code::*;
        let [a, b, c, d] = *rows else { return None };
        let pairs = [(VEX_Vunpcklpd_ymm_ymm_ymmm256), (VEX_Vunpckhpd_ymm_ymm_ymmm256)]
            .map(|code| [self.plain(code, &[a, b]), self.plain(code, &[c, d])]);
        let order = [(0, 0x20), (1, 0x20), (0, 0x31), (1, 0x31)];
        Some(order.map(|(k, imm)| self.with_imm(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, &pairs[k], imm)).to_vec())
    }

    /// A square of 32-bit elements.
    fn transposed_8(&mut self, rows: &[Reg]) -> Option<Vec<Reg>> {
        use Code::*;
        // In each half of 128 bits: two elements of two rows, then four elements of one column of four rows.
        let mut fours = Vec::new();
        for four in rows.as_chunks::<4>().0 {
            let [a, b, c, d] = *four;
            for code in [VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256] {
                let (x, y) = (self.plain(code, &[a, b]), self.plain(code, &[c, d]));
                for imm in [0b01_00_01_00, 0b11_10_11_10] {
                    fours.push(self.with_imm(VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[x, y], imm));
                }
            }
        }
        let (upper, lower) = fours.split_at_checked(4)?;
        let mut out = Vec::new();
        for imm in [0x20, 0x31] {
            for (&x, &y) in upper.iter().zip(lower) {
                out.push(self.with_imm(VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, &[x, y], imm));
            }
        }
        Some(out)
    }
}
