// Reformer's plans: a pass is a round, its rows sorted by (bucket, position) and cut into chunks.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/planning/plan_builder.h"

namespace lshformer {
namespace {

// The chunks of all rounds, end to end, and the place of each in the orders laid end to end: place 0 is the first of
// round 0. A round's last chunk is short where chunks do not divide the length.
struct Circle {
  int64_t length, chunk, chunks, rounds;  // chunks: of one round

  int64_t Begin(int64_t number) const {  // of any number: the circle goes on before 0 and after the last round
    const int64_t round = number >= 0 ? number / chunks : -((chunks - 1 - number) / chunks);
    return round * length + std::min(length, (number - round * chunks) * chunk);
  }
  int64_t Size() const { return rounds * chunks; }
};

Circle CircleOf(const ReformerAttention& reformer, int32_t length) {
  return {length, reformer.chunk, (int64_t{length} + reformer.chunk - 1) / reformer.chunk, reformer.rounds};
}

// A view that counts pairs once and reaches all around the circle is the whole circle, from anywhere.
ChunkView ViewOf(const ReformerAttention& reformer, const Circle& circle) {
  ChunkView view{reformer.chunk, reformer.look_back, reformer.look_ahead, reformer.wrap && reformer.cross_bucket};
  const int64_t most = view.wrap ? circle.Size() : circle.chunks;
  view.back = static_cast<int32_t>(std::min<int64_t>(view.back, most));  // nothing to see beyond
  view.ahead = static_cast<int32_t>(std::min<int64_t>(view.ahead, most));
  if (view.wrap && reformer.count_pairs_once && int64_t{view.back} + view.ahead + 1 > most) {
    view.back = static_cast<int32_t>(most - 1);
    view.ahead = 0;
  }
  return view;
}

class ReformerUnit {
 public:
  ReformerUnit(const ReformerAttention& reformer, UnitPlan& parts)
      : reformer_(reformer),
        parts_(parts),
        circle_(CircleOf(reformer, parts.unit.length)),
        view_(ViewOf(reformer, circle_)),
        left_(view_.wrap ? -circle_.Begin(-view_.back) : 0),
        right_(view_.wrap ? circle_.Begin(circle_.Size() + view_.ahead) - circle_.Begin(circle_.Size()) : 0) {
    parts.unit.view = view_;
  }

  // buckets[round · stride + position], and there, where a rule needs them, chunks.
  void AddPasses(const int32_t* buckets, int32_t* chunks, int64_t stride) {
    OrderRounds(buckets, stride);
    for (int round = 0; round < reformer_.rounds; ++round) {
      AddPass(round, buckets + round * stride);
      if (chunks) LabelChunks(round, chunks + round * stride);
    }
  }

 private:
  void OrderRounds(const int32_t* buckets, int64_t stride) {
    const int64_t places = circle_.length * circle_.rounds;
    parts_.orders.resize(static_cast<size_t>(left_ + places + right_));
    int32_t* first = parts_.orders.data() + left_;
    std::vector<int32_t> count;
    for (int round = 0; round < reformer_.rounds; ++round)
      BucketOrder(buckets + round * stride, parts_.unit.length, count, first + round * circle_.length);
    for (int64_t i = 1; i <= left_; ++i) first[-i] = first[places - 1 - (i - 1) % places];
    for (int64_t i = 0; i < right_; ++i) first[places + i] = first[i % places];
  }

  void AddPass(int round, const int32_t* buckets) {
    const int64_t own = round * circle_.length, first_chunk = round * circle_.chunks;
    const int64_t begin = view_.wrap ? circle_.Begin(first_chunk - view_.back) : own;
    const int64_t end = view_.wrap ? circle_.Begin(first_chunk + circle_.chunks + view_.ahead) : own + circle_.length;
    TilePass pass;
    pass.hash = round;
    pass.rule = Rule(round);
    pass.row_order = left_ + own;
    pass.column_order = left_ + begin;
    pass.columns = static_cast<int32_t>(end - begin);
    pass.own_columns = static_cast<int32_t>(own - begin);
    pass.tile_begin = static_cast<int64_t>(parts_.tiles.size());
    for (int64_t c = 0; c < circle_.chunks; ++c) {
      const int64_t from =
          view_.wrap ? first_chunk + c - view_.back : first_chunk + std::max<int64_t>(0, c - view_.back);
      const int64_t to =
          view_.wrap ? first_chunk + c + view_.ahead : first_chunk + std::min(circle_.chunks - 1, c + view_.ahead);
      const Segment seen{static_cast<int32_t>(circle_.Begin(from) - begin),
                         static_cast<int32_t>(circle_.Begin(to + 1) - begin), (pass.rule & ~kSelfPenalty) == 0};
      AddChunk(pass, static_cast<int32_t>(c * circle_.chunk),
               static_cast<int32_t>(std::min(circle_.length, (c + 1) * circle_.chunk)), seen, buckets);
    }
    pass.tile_end = static_cast<int64_t>(parts_.tiles.size());
    parts_.passes.push_back(pass);
  }

  uint8_t Rule(int round) const {
    int rule = kSelfPenalty;
    if (!reformer_.cross_bucket) rule |= kSameBucket;
    if (reformer_.causal) rule |= kColumnNotAfter;
    if (reformer_.count_pairs_once && (round > 0 || (view_.wrap && reformer_.rounds > 1))) rule |= kFirstView;
    return static_cast<uint8_t>(rule);
  }

  void AddChunk(const TilePass& pass, int32_t row_begin, int32_t row_end, const Segment& seen, const int32_t* buckets) {
    const int32_t step = RowsOfATile(row_end - row_begin);
    for (int32_t row = row_begin; row < row_end; row += step) {
      const int32_t end = std::min(row_end, row + step);
      const Segment segment = (pass.rule & kSameBucket) ? OfTheseBuckets(pass, row, end, seen, buckets) : seen;
      AddTile(parts_, row, end, &segment, 1);
    }
  }

  // The columns of the view that share a bucket with one of the rows: both are sorted by bucket.
  Segment OfTheseBuckets(const TilePass& pass, int32_t row_begin, int32_t row_end, Segment seen,
                         const int32_t* buckets) const {
    const int32_t* order = parts_.orders.data() + pass.column_order;
    const int32_t low = buckets[order[pass.own_columns + row_begin]];
    const int32_t high = buckets[order[pass.own_columns + row_end - 1]];
    const auto before = [buckets](int32_t position, int32_t bucket) { return buckets[position] < bucket; };
    const auto after = [buckets](int32_t bucket, int32_t position) { return bucket < buckets[position]; };
    const int32_t *first = order + seen.column_begin, *last = order + seen.column_end;
    seen.column_begin = static_cast<int32_t>(std::lower_bound(first, last, low, before) - order);
    seen.column_end = static_cast<int32_t>(std::upper_bound(first, last, high, after) - order);
    seen.every_pair = low == high && (pass.rule & ~(kSelfPenalty | kSameBucket)) == 0;
    return seen;
  }

  void LabelChunks(int round, int32_t* chunks) const {
    const int32_t* order = parts_.orders.data() + left_ + round * circle_.length;
    for (int64_t place = 0; place < circle_.length; ++place)
      chunks[order[place]] = static_cast<int32_t>(round * circle_.chunks + place / circle_.chunk);
  }

  const ReformerAttention& reformer_;
  UnitPlan& parts_;
  Circle circle_;
  ChunkView view_;
  int64_t left_, right_;  // places copied before the first round and after the last
};

// The whole sequence, each key once.
void AddExactReformer(const ReformerAttention& reformer, UnitPlan& parts) {
  const int32_t length = parts.unit.length;
  TilePass pass;
  pass.rule = static_cast<uint8_t>(kSelfPenalty | (reformer.causal ? kColumnNotAfter : 0));
  pass.columns = length;
  for (int32_t row = 0; row < length; row += kTileRows) {
    const int32_t end = std::min(length, row + kTileRows);
    const std::array<Segment, 2> seen{
        {{0, reformer.causal ? row : length, true}, {reformer.causal ? row : length, end, false}}};
    AddTile(parts, row, end, seen.data(), seen.size());
  }
  pass.tile_end = static_cast<int64_t>(parts.tiles.size());
  parts.passes.push_back(pass);
}

}  // namespace

AttentionPlanPtr BuildReformerPlan(const AttentionSpec& spec, const AttentionShape& shape,
                                   std::span<const int32_t> buckets) {
  const auto& reformer = As<ReformerAttention>(spec);
  auto plan = std::make_shared<AttentionPlan>();
  plan->shared_keys = true;
  plan->pairs_counted = false;
  plan->hashes = reformer.rounds;
  for (int b = 0; b < shape.sequences(); ++b) {
    const int32_t length = shape.cu_seqlens[b + 1] - shape.cu_seqlens[b];
    if (!IsSparseAt(spec, length)) continue;
    CheckView(reformer, length);
    plan->counts.selection_flops +=
        int64_t{2} * RotationColumns(reformer, length) * shape.head_dim * length * reformer.rounds * shape.heads;
  }
  if (!reformer.cross_bucket) plan->query_buckets.assign(buckets.begin(), buckets.end());
  if (reformer.count_pairs_once || AnyAlwaysSeen(spec)) plan->chunks.resize(buckets.size());
  int32_t* chunks = plan->chunks.empty() ? nullptr : plan->chunks.data();
  const int64_t tokens = shape.tokens();
  return BuildFromUnits(
      plan, shape, [&spec, &reformer, buckets, chunks, tokens](const AttentionPlan&, UnitPlan& parts) {
        if (!IsSparseAt(spec, parts.unit.length)) {
          AddExactReformer(reformer, parts);
          return;
        }
        const int64_t first = int64_t{parts.unit.head} * reformer.rounds * tokens + parts.unit.token_begin;
        ReformerUnit(reformer, parts).AddPasses(buckets.data() + first, chunks ? chunks + first : nullptr, tokens);
        const int rule = kFirstView | kSelfPenalty | (reformer.causal ? kColumnNotAfter : 0);
        parts.unit.always = AlwaysSeenOf(spec, parts.unit.length);
        AddAlwaysPass(reformer.rounds, static_cast<uint8_t>(rule), parts);
      });
}

namespace {

// Whether the rule lets the pair count, whatever was met before.
bool InSight(const AttentionPlan& plan, const Unit& unit, const TilePass& pass, int32_t row, int32_t column) {
  if ((pass.rule & kColumnNotAfter) && column > row) return false;
  if ((pass.rule & kAlwaysSeen) && !unit.always.Holds(row, column)) return false;
  if (!(pass.rule & kSameBucket)) return true;
  return plan.RowBuckets(unit, pass, pass.hash)[row] == plan.ColumnBuckets(unit, pass, pass.hash)[column];
}

}  // namespace

int64_t PairsMet(const AttentionPlan& plan, const Unit& unit) {
  const int64_t length = unit.length;
  const int passes = unit.pass_end - unit.pass_begin;
  if (passes == 1 && plan.passes[unit.pass_begin].row_order < 0)
    return plan.passes[unit.pass_begin].rule & kColumnNotAfter ? length * (length + 1) / 2 : length * length;
  const ChunkView& view = unit.view;
  if (passes == 1 && plan.passes[unit.pass_begin].rule == kSelfPenalty &&
      (!view.wrap || int64_t{view.back} + view.ahead < unit.ChunksOfARound()))
    return unit.visited_pairs;                    // no view holds a chunk twice
  std::vector<int32_t> tile_of(passes * length);  // by pass and position
  for (int p = 0; p < passes; ++p) {
    const TilePass& pass = plan.passes[unit.pass_begin + p];
    const int32_t* order = plan.Order(pass.row_order);
    for (int64_t t = pass.tile_begin; t < pass.tile_end; ++t) {
      for (int32_t row = plan.tiles[t].row_begin; row < plan.tiles[t].row_end; ++row)
        tile_of[p * length + (order ? order[row] : row)] = static_cast<int32_t>(t - pass.tile_begin);
    }
  }
  int64_t pairs = 0;
  std::vector<int32_t> met_by(length, -1);
  for (int32_t row = 0; row < length; ++row) {
    for (int p = 0; p < passes; ++p) {
      const TilePass& pass = plan.passes[unit.pass_begin + p];
      const Tile& tile = plan.tiles[pass.tile_begin + tile_of[p * length + row]];
      const int32_t* order = plan.Order(pass.column_order);
      for (int32_t s = tile.segment_begin; s < tile.segment_end; ++s) {
        for (int32_t c = plan.segments[s].column_begin; c < plan.segments[s].column_end; ++c) {
          const int32_t column = order ? order[c] : c;
          if (met_by[column] == row || (!plan.segments[s].every_pair && !InSight(plan, unit, pass, row, column)))
            continue;
          met_by[column] = row;
          ++pairs;
        }
      }
    }
  }
  return pairs;
}

}  // namespace lshformer
