//! Tiles of two axes: elements that lie side by side along one axis and are wanted along the other change places in registers.
//!
//! A tile is a stage whose last sequential loop is short. That loop and the row are written out: for each group of a register's elements
//! along the sequential axis, and each block along the vector axis, what is contiguous along the former is loaded as rows of a square
//! and transposed.

use super::Reg;
use super::select::{Access, Block, Pointer, Selected, Selector, count, load_code};
use crate::codegen::rows::{RowLoop, Width};
use crate::codegen::vector::{Leaves, Partial, Row, Step, Storing, Values, elements};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Loop, Nest, PAGE, Stage};
use hashbrown::HashMap;
use iced_x86::Code;
use smallvec::smallvec;

/// The most elements of a tile.
const MOST_ELEMENTS: i64 = 256;

/// The loops of a stage that is a tile: those that run around it, and the one that is its other axis.
pub fn tile_of(stage: &Stage) -> Option<(&[Loop], Loop)> {
    let (inner, around) = stage.sequential.split_last()?;
    let plain = stage.accumulators.is_empty() && stage.row_stores.is_empty();
    let small = inner.extent.checked_mul(stage.vector.extent)? <= MOST_ELEMENTS;
    (plain && small).then_some((around, *inner))
}

/// The whole tile as one iteration; the plan is along both its axes. `None` where it is not made of whole squares, some part has no form
/// here, or nothing changes places.
///
/// # Errors
/// What the traversal of the body misses, a fault of ours.
pub(super) fn select(
    nest: &Nest,
    row: &RowLoop<'_>,
    (width, fma): (Width, bool),
    past: bool,
) -> Result<Selected, String> {
    let stage = row.stage;
    let Some((_, inner)) = tile_of(stage) else { return Ok(None) };
    let Some(group) = group_of(row, inner, width) else { return Ok(None) };
    if inner.extent % group != 0 || stage.vector.extent % width.block() != 0 {
        return Ok(None);
    }
    let selector = Selector::new(nest, row, width, fma);
    let (loaded, turned) = (HashMap::new(), HashMap::new());
    let mut square = Square { selector, inner, group, past, first: 0, block: 0, at: 0, loaded, turned };
    let blocks = stage.vector.extent / width.block();
    // Past the caches, what lies in one line is stored together.
    let order: Vec<(i64, i64)> = if past {
        (0..group).flat_map(|at| (0..blocks).map(move |block| (block, at))).collect()
    } else {
        (0..blocks).flat_map(|block| (0..group).map(move |at| (block, at))).collect()
    };
    for first in (0..inner.extent).step_by(group as usize) {
        square.turned.clear();
        for &(block, at) in &order {
            (square.first, square.block, square.at) = (first, block, at);
            if elements(&mut square, row).is_none() {
                return square.selector.fault.map_or(Ok(None), Err);
            }
        }
    }
    let mut selector = square.selector;
    Ok(selector.end().and_then(|iteration| selector.finish(Some(iteration), None, None)))
}

/// Elements from one to the next along the sequential axis and along the vector axis.
fn strides(row: &RowLoop<'_>, inner: Loop, ix: &Ix) -> Option<(i64, i64)> {
    Some((row.stride(ix, inner.axis)?, row.stride(ix, row.stage.vector.axis)?))
}

/// How many elements of what changes places a register has; `None` where nothing does, or not all alike.
fn group_of(row: &RowLoop<'_>, inner: Loop, width: Width) -> Option<i64> {
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
    let of = |mem: &Mem| width.block() / count(mem.scalar()) as i64;
    let group = of(crossing.first()?);
    let alike = |mem: &Mem| !mem.is_extended() && of(mem) == group;
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
    /// Whether stores go past the caches.
    past: bool,
    /// Rows of a later group, by their load, its first element and the block.
    loaded: HashMap<(NodeId, i64, i64), Vec<Reg>>,
    /// Of what changes places, by its load and the block, registers for each element of the group.
    turned: HashMap<(NodeId, i64), Vec<Block>>,
}

impl<'k> Leaves for Square<'k> {
    type Isa = Selector<'k>;

    fn isa(&mut self) -> &mut Selector<'k> {
        &mut self.selector
    }

    fn shape(&self) {}

    fn leaf(&mut self, body: &Body, id: NodeId, _: &Values<Block>) -> Option<Block> {
        let Op::Load(_, mem, ix) = &body.node(id).op else { return None };
        let (element, begin) = (self.first + self.at, self.block * self.selector.block);
        match strides(self.selector.row, self.inner, ix)? {
            (along, 1) => self.selector.load(Pointer::Load(id), *mem, element * along + begin),
            (along, 0) => self.selector.broadcast(Pointer::Load(id), *mem, element * along),
            (1, across) => {
                let key = (id, self.block);
                if !self.turned.contains_key(&key) {
                    let turned = self.iteration(id, *mem, across)?;
                    self.turned.insert(key, turned);
                }
                self.turned.get(&key)?.get(self.at as usize).cloned()
            }
            _ => None,
        }
    }
}

impl Row for Square<'_> {
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Block> {
        self.selector.uniform(body, id)
    }

    fn store(&mut self, s: Storing<'_, Block>, _: &Values<Block>) -> Option<usize> {
        let store = self.selector.row.stage.stores.get(s.number)?;
        let (along, 1) = strides(self.selector.row, self.inner, &store.index)? else { return None };
        let element = (self.first + self.at) * along + self.block * self.selector.block;
        let to = Pointer::Store(s.number);
        if self.past {
            self.selector.store_past(to, store.mem, element, s.value)?;
        } else {
            self.selector.store_block(to, store.mem, element, s.value)?;
        }
        Some(0)
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

    fn taken(&mut self, _: Step, _: ScalarType, _: &Block) -> Option<Block> {
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

impl Square<'_> {
    /// What a load gives for the block and the group at hand, turned to lie along the vector axis.
    fn iteration(&mut self, id: NodeId, mem: Mem, across: i64) -> Option<Vec<Block>> {
        let (group, block) = (self.group, self.selector.block);
        // Rows so far apart leave the first cache again: a line of theirs is read at once, for later groups too.
        let ahead = self.past && across.checked_mul(mem.bytes())? % PAGE == 0;
        let groups = if ahead { (self.inner.extent - self.first) / group } else { 1 };
        if !self.loaded.contains_key(&(id, self.first, self.block)) {
            for row in 0..block {
                for first in (0..groups).map(|k| self.first + k * group) {
                    let element = (self.block * block + row).checked_mul(across)?.checked_add(first)?;
                    let from: Access = self.selector.access(Pointer::Load(id), mem, element, 0)?;
                    let r = self.selector.load_at(load_code(mem), from, false);
                    self.loaded.entry((id, first, self.block)).or_default().push(r);
                }
            }
        }
        let rows = self.loaded.remove(&(id, self.first, self.block))?;
        let mut out = vec![Block::new(); group as usize];
        for square in rows.chunks(group as usize) {
            let columns = self.selector.transposed(mem, square)?;
            out.iter_mut().zip(columns).for_each(|(block, r)| block.push(r));
        }
        Some(out)
    }
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
        Some(smallvec![r; count(mem.scalar())])
    }

    /// Stores a block past the caches, from `first` on; its registers lie on multiples of their size.
    fn store_past(&mut self, p: Pointer, mem: Mem, first: i64, v: &[Reg]) -> Option<()> {
        if mem.is_extended() {
            return None;
        }
        self.store_registers((p, mem), first, v, (Code::VEX_Vmovntps_m256_ymm, false))
    }

    /// The columns of a square whose rows are registers.
    fn transposed(&mut self, mem: Mem, rows: &[Reg]) -> Option<Vec<Reg>> {
        let parts = if mem.scalar().bits() == 64 { self.pairs(rows) } else { self.fours(rows) };
        let elements = parts.len();
        let mut out = vec![None; rows.len()];
        for (k, same) in parts.iter().enumerate() {
            let columns = match (self.width, same.as_slice()) {
                (Width::W256, &[x, y]) => self.lower_and_upper([x, y]).to_vec(),
                (Width::W512, &[a, b, c, d]) => self.quarters_turned([a, b, c, d]).to_vec(),
                _ => return None,
            };
            for (part, r) in columns.into_iter().enumerate() {
                *out.get_mut(part * elements + k)? = Some(r);
            }
        }
        out.into_iter().collect()
    }

    /// Of rows of 64-bit elements, for both elements of a part of 128 bits, the registers that have it of two rows after another.
    fn pairs(&mut self, rows: &[Reg]) -> Vec<Vec<Reg>> {
        use Code::*;
        let mut out = vec![Vec::new(); 2];
        for &[a, b] in rows.as_chunks::<2>().0 {
            let codes = [VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256];
            for (same, code) in out.iter_mut().zip(codes) {
                same.push(self.plain(code, &[a, b]));
            }
        }
        out
    }

    /// Of rows of 32-bit elements, for each of the four of a part of 128 bits, the registers that have it of four rows after another.
    fn fours(&mut self, rows: &[Reg]) -> Vec<Vec<Reg>> {
        use Code::*;
        let mut out = vec![Vec::new(); 4];
        for &[a, b, c, d] in rows.as_chunks::<4>().0 {
            let codes = [VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256];
            for (two, code) in out.chunks_mut(2).zip(codes) {
                let (x, y) = (self.plain(code, &[a, b]), self.plain(code, &[c, d]));
                for (same, imm) in two.iter_mut().zip([0b01_00_01_00, 0b11_10_11_10]) {
                    same.push(self.with_imm(VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[x, y], imm));
                }
            }
        }
        out
    }

    /// The parts of 128 bits of four registers, changing places: of all the first, of all the second and so on.
    fn quarters_turned(&mut self, [a, b, c, d]: [Reg; 4]) -> [Reg; 4] {
        let [[even, odd], [also_even, also_odd]] = [[a, b], [c, d]].map(|of| self.parts_by_turns(of));
        let [first, third] = self.parts_by_turns([even, also_even]);
        let [second, fourth] = self.parts_by_turns([odd, also_odd]);
        [first, second, third, fourth]
    }
}
