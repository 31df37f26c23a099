#include "nn/convolution_block.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "kernels/position_signal.h"
#include "ops/depthwise_convolution.h"
#include "ops/gather_rows.h"
#include "ops/recompute.h"

namespace lshformer {
namespace {

// Where a block's parameters are.
struct BlockNames {
  std::string prefix, norm;
  BlockNames(std::string at, const EncoderConfig& config)
      : prefix(std::move(at)), norm(config.reversible ? ".input_norm" : ".norm") {}
  std::string Convolution(int64_t i) const { return fmt::format("{}.convolutions.{}", prefix, i); }
  std::string Attention() const { return prefix + ".attention"; }
  std::string FeedForward() const { return prefix + ".feed_forward"; }
};

// Uniform in ±bound, as a public implementation draws them: √(6 / inputs) where relu follows in the feed-forward (He et
// al. 2015), √(6 / (inputs + outputs)) elsewhere (Glorot and Bengio 2010), but 1 / √inputs in convolutions: ninety
// sub-layers add to one stream of rows, and those that begin loud drown the words in it.
ParameterSpec Drawn(std::string name, std::vector<int64_t> shape, double bound, const std::string& block,
                    const std::string& reason) {
  return {std::move(name), std::move(shape), Initial::kUniform, block, reason, {}, bound};
}
double BeforeRelu(int64_t inputs) { return std::sqrt(6.0 / static_cast<double>(inputs)); }
double OfConvolution(int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }
double Plain(int64_t width) { return std::sqrt(3.0 / static_cast<double>(width)); }

ParameterSpec DrawnMap(std::string name, int64_t width, double bound, const std::string& block,
                       const std::string& reason) {
  ParameterSpec spec = Drawn(std::move(name), {width, width}, bound, block, reason);
  spec.role.layer_map = true;
  return spec;
}

// One parameter of [width, width] and its bias.
void AppendSquare(std::vector<ParameterSpec>& specs, const std::string& prefix, int64_t width, double bound,
                  const std::string& block, const std::string& reason) {
  specs.push_back(DrawnMap(prefix + ".weight", width, bound, block, reason));
  specs.push_back({prefix + ".bias", {width}, Initial::kZero, block, reason, {.decays = false}});
}

std::vector<ParameterSpec> ConvolutionSpecs(const BlockNames& names, int64_t i, const EncoderConfig& config,
                                            int64_t kernel_size, const std::string& block) {
  const int64_t width = config.hidden_size;
  const std::string at = names.Convolution(i), square = fmt::format("hidden_size {}", width);
  std::vector<ParameterSpec> specs;
  AppendLayerNorm(specs, at + names.norm, width, block);
  specs.push_back(Drawn(at + ".depthwise.weight", {width, kernel_size}, OfConvolution(kernel_size), block,
                        fmt::format("{}, kernel size {}", square, kernel_size)));
  AppendSquare(specs, at + ".pointwise", width, OfConvolution(width), block, square);
  return specs;
}

std::vector<ParameterSpec> AttentionSpecs(const BlockNames& names, const EncoderConfig& config,
                                          const std::string& block) {
  const int64_t width = config.hidden_size;
  const std::string at = names.Attention(), square = fmt::format("hidden_size {}", width);
  std::vector<ParameterSpec> specs;
  AppendLayerNorm(specs, at + names.norm, width, block);
  for (const char* part : {".query.weight", ".key.weight", ".value.weight"})
    specs.push_back(DrawnMap(at + part, width, Plain(width), block, square));
  return specs;
}

std::vector<ParameterSpec> FeedForwardSpecs(const BlockNames& names, const EncoderConfig& config,
                                            const std::string& block) {
  const int64_t width = config.hidden_size;
  const std::string at = names.FeedForward(), square = fmt::format("hidden_size {}", width);
  std::vector<ParameterSpec> specs;
  AppendLayerNorm(specs, at + names.norm, width, block);
  AppendSquare(specs, at + ".inner", width, BeforeRelu(width), block, square);
  AppendSquare(specs, at + ".outer", width, Plain(width), block, square);
  return specs;
}

// Whether a sub-layer adds nothing this time.
bool Skipped(const ForwardContext& context, uint32_t sublayer, double probability) {
  if (!context.train || probability <= 0) return false;
  const uint64_t key = StreamKey(context.seed, context.dropout_step, sublayer,
                                 static_cast<uint32_t>(DropoutSite::kSublayer), Purpose::kHiddenDropout);
  return PhiloxStream(key).Uniform() < probability;
}

}  // namespace

torch::Tensor PositionSignal(const std::vector<int32_t>& positions, int64_t width) {
  const int64_t length = positions.empty() ? 0 : *std::max_element(positions.begin(), positions.end()) + 1;
  torch::Tensor table = torch::empty({length, width});
  WritePositionSignal(length, width, table.data_ptr<float>());
  const torch::NoGradGuard no_grad;
  return GatherRows(table, positions);
}

void ConvolutionBlock::AppendSpecs(std::vector<ParameterSpec>& specs, const std::string& prefix,
                                   const EncoderConfig& config, const ConvolutionBlockShape& shape,
                                   const std::string& block) {
  const BlockNames names(prefix, config);
  const auto append = [&](std::vector<ParameterSpec> more) {
    for (ParameterSpec& spec : more) specs.push_back(std::move(spec));
  };
  for (int64_t i = 0; i < shape.convolutions; ++i) append(ConvolutionSpecs(names, i, config, shape.kernel_size, block));
  append(AttentionSpecs(names, config, block));
  specs.push_back(
      {names.Attention() + ".bias", {1}, Initial::kZero, block, "one a block", {.decays = false, .trained = false}});
  append(FeedForwardSpecs(names, config, block));
}

// Makes the sub-layers one after another.
class ConvolutionBlock::Builder {
 public:
  Builder(const ParameterMap& parameters, const EncoderConfig& config, const ConvolutionBlockShape& shape,
          const ConvolutionBlockPlace& place)
      : parameters_(parameters), config_(config), shape_(shape), place_(place) {}

  template <class Function>
  Sublayer Next(const std::string& norm, double input_dropout, const std::vector<ParameterSpec>& specs,
                Function function) {
    const auto number = static_cast<uint32_t>(made_++);
    const double depth =
        static_cast<double>(place_.before + made_) / static_cast<double>(std::max<int64_t>(1, place_.stack_size));
    return {LayerNorm(parameters_, norm, config_.layer_norm_eps),
            std::move(function),
            parameters_.Get(specs),
            place_.first_sublayer + number,
            input_dropout,
            shape_.layer_dropout * depth};
  }

 private:
  const ParameterMap& parameters_;
  const EncoderConfig& config_;
  const ConvolutionBlockShape& shape_;
  const ConvolutionBlockPlace& place_;
  int64_t made_ = 0;
};

ConvolutionBlock::ConvolutionBlock(const ParameterMap& parameters, const std::string& prefix,
                                   const EncoderConfig& config, const ConvolutionBlockShape& shape,
                                   const ConvolutionBlockPlace& place) {
  const BlockNames names(prefix, config);
  const double dropout = config.hidden_dropout_prob;
  Builder builder(parameters, config, shape, place);
  for (int64_t i = 0; i < shape.convolutions; ++i) {
    const std::string at = names.Convolution(i);
    const auto convolution = [depthwise = parameters.Get(at + ".depthwise.weight"),
                              pointwise = parameters.LinearOf(at + ".pointwise")](const torch::Tensor& x,
                                                                                  const ForwardContext& context) {
      const torch::Tensor mixed = DepthwiseConvolution(x, depthwise, context.sequences->cu_seqlens);  // [T, H]
      return pointwise.Then(UnaryFunction::kRelu, mixed, context.precision);
    };
    sublayers_.push_back(builder.Next(at + names.norm, i % 2 == 0 ? dropout : 0,
                                      ConvolutionSpecs(names, i, config, shape.kernel_size, ""), convolution));
  }
  const std::string at = names.Attention();
  std::vector<std::string> maps{at + ".query", at + ".key", at + ".value"};
  if (SlicesOf(config.layer_attention(place.layer)) == 2) maps.erase(maps.begin() + 1);  // shared keys
  const auto attention = [attention = LayerAttention(parameters, config, {place.visit, place.layer}),
                          maps = parameters.LinearOf(maps)](const torch::Tensor& x, const ForwardContext& context) {
    return attention(maps(x, context.precision, attention.InputType(context)), context);
  };
  sublayers_.push_back(builder.Next(at + names.norm, dropout, AttentionSpecs(names, config, ""), attention));
  const auto feed_forward = [inner = parameters.LinearOf(names.FeedForward() + ".inner"),
                             outer = parameters.LinearOf(names.FeedForward() + ".outer")](
                                const torch::Tensor& x, const ForwardContext& context) {
    return inner.Then(UnaryFunction::kRelu, outer, x, context.precision);
  };
  sublayers_.push_back(
      builder.Next(names.FeedForward() + names.norm, dropout, FeedForwardSpecs(names, config, ""), feed_forward));
}

torch::Tensor ConvolutionBlock::Sublayer::Added(const torch::Tensor& x, const ForwardContext& context) const {
  if (Skipped(context, number, layer_dropout)) return {};
  const torch::Tensor in =
      Dropout(norm(x, {}, {}), context.DropoutAt(DropoutSite::kSublayerInput, number, input_dropout, context.rows));
  return Dropout(function(in, context),
                 context.DropoutAt(DropoutSite::kSublayerOutput, number, layer_dropout, context.rows));
}

torch::Tensor ConvolutionBlock::Run(const std::vector<Sublayer>& sublayers, const torch::Tensor& x,
                                    const torch::Tensor& signal, const ForwardContext& context) {
  torch::Tensor y = x + signal;  // [T, H]
  for (const Sublayer& sublayer : sublayers) {
    const torch::Tensor added = sublayer.Added(y, context);
    if (added.defined()) y = y + added;
  }
  return y;
}

torch::Tensor ConvolutionBlock::operator()(const torch::Tensor& x, const torch::Tensor& signal,
                                           const ForwardContext& context, const ForwardContext& replay) const {
  if (!context.recompute_layers) return Run(sublayers_, x, signal, context);
  std::vector<torch::Tensor> parameters;
  for (const Sublayer& sublayer : sublayers_)
    parameters.insert(parameters.end(), sublayer.parameters.begin(), sublayer.parameters.end());
  const auto run = [sublayers = sublayers_, signal, first = &context, replay](const torch::Tensor& rows,
                                                                              const RowCall& call) {
    return Run(sublayers, rows, signal, call.again ? replay : *first);
  };
  return Recomputed({run, std::move(parameters), /*chunk=*/0}, x);
}

// x ↦ beside + f(x + before); both may be undefined: nothing is added there.
RowFunction ConvolutionBlock::Half(const Sublayer& sublayer, const torch::Tensor& before, const torch::Tensor& beside,
                                   const ForwardContext& context, const ForwardContext& replay) {
  const auto run = [sublayer, before, beside, first = &context, replay](const torch::Tensor& x, const RowCall& call) {
    const torch::Tensor added = sublayer.Added(before.defined() ? x + before : x, call.again ? replay : *first);
    if (!added.defined()) return beside.defined() ? beside : torch::zeros_like(x);
    return beside.defined() ? added + beside : added;
  };
  return {run, sublayer.parameters, /*chunk=*/0};
}

std::vector<ReversibleLayer> ConvolutionBlock::Pairs(const torch::Tensor& signal, const ForwardContext& context,
                                                     const ForwardContext& replay) const {
  if (sublayers_.size() % 2 != 0) Fail("a reversible block has pairs of sub-layers, not {}", sublayers_.size());
  std::vector<ReversibleLayer> pairs;
  for (size_t i = 0; i < sublayers_.size(); i += 2) {
    const torch::Tensor begins = i == 0 ? signal : torch::Tensor();
    pairs.push_back(
        {Half(sublayers_[i], begins, begins, context, replay), Half(sublayers_[i + 1], {}, begins, context, replay)});
  }
  return pairs;
}

}  // namespace lshformer
