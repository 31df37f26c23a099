#include "ops/reversible.h"

#include <memory>
#include <utility>

#include "base/error.h"
#include "kernels/reversible.h"
#include "ops/saved_for_backward.h"

namespace lshformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor Stream(const torch::Tensor& x) {
  const torch::Tensor values = x.contiguous();
  torch::Tensor stream = torch::empty(x.sizes(), torch::kFloat64);
  ToStream(values.data_ptr<float>(), values.numel(), stream.data_ptr<double>());
  return stream;
}

void Add(const torch::Tensor& x, torch::Tensor& stream) {
  AddToStream(x.contiguous().data_ptr<float>(), stream.numel(), stream.data_ptr<double>());
}
void Take(const torch::Tensor& x, torch::Tensor& stream) {
  TakeFromStream(x.contiguous().data_ptr<float>(), stream.numel(), stream.data_ptr<double>());
}

torch::Tensor ToFloat(const torch::Tensor& stream) {
  torch::Tensor x = torch::empty(stream.sizes(), torch::kFloat32);
  StreamToFloat(stream.data_ptr<double>(), x.numel(), x.data_ptr<float>());
  return x;
}

torch::Tensor Mean(const torch::Tensor& first, const torch::Tensor& second) {
  torch::Tensor mean = torch::empty(first.sizes(), torch::kFloat32);
  MeanOfStreams(first.data_ptr<double>(), second.data_ptr<double>(), mean.numel(), mean.data_ptr<float>());
  return mean;
}

using Visit = std::function<void(const torch::Tensor&)>;

struct Streams {
  torch::Tensor first, second;  // [T, H], float64
};

Streams RunLayers(const torch::Tensor& x, const std::vector<ReversibleLayer>& layers, const Visit& visit) {
  Streams streams{Stream(x.detach()), {}};
  streams.second = streams.first.clone();
  for (const ReversibleLayer& layer : layers) {
    Add(Evaluate(layer.f, ToFloat(streams.second)), streams.first);
    Add(Evaluate(layer.g, ToFloat(streams.first)), streams.second);
    if (visit) visit(Mean(streams.first, streams.second));
  }
  return streams;
}

struct ReversibleState {
  std::vector<ReversibleLayer> layers;
  Streams last;  // until the backward takes them
};
using StatePtr = std::shared_ptr<ReversibleState>;

std::vector<torch::Tensor> AllParameters(const std::vector<ReversibleLayer>& layers) {
  std::vector<torch::Tensor> all;
  for (const ReversibleLayer& layer : layers)
    for (const RowFunction* function : {&layer.f, &layer.g})
      all.insert(all.end(), function->parameters.begin(), function->parameters.end());
  return all;
}

// One half of a layer backwards, from its output in `stream`: that becomes the half's input in the stream, `grad_in`
// grows by the gradient through it. Gradients by its parameters go to `result` from `place` on.
void StepBack(const RowFunction& half, const torch::Tensor& in, torch::Tensor& stream, const torch::Tensor& grad_out,
              torch::Tensor& grad_in, const std::vector<bool>& wanted, size_t place, variable_list& result) {
  const RowGradients gradients = Differentiate(half, ToFloat(in), grad_out);
  Take(gradients.value, stream);
  grad_in.add_(gradients.x);
  for (size_t i = 0; i < gradients.parameters.size(); ++i)
    if (wanted[place + i]) result[place + i] = gradients.parameters[i];
}

struct ReversibleOp : torch::autograd::Function<ReversibleOp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, at::TensorList, StatePtr state,
                               const Visit& visit) {
    {
      const torch::AutoGradMode as_later(true);  // the bits that the backward will see
      state->last = RunLayers(x, state->layers, visit);
    }
    const torch::Tensor mean = Mean(state->last.first, state->last.second);
    Keep(context, std::move(state));
    return mean;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    ReversibleState& state = *GetKept<StatePtr>(context);
    Streams streams = std::exchange(state.last, {});
    if (!streams.first.defined()) Fail("reversible layers: a second backward needs a forward of its own");
    size_t place = 1 + AllParameters(state.layers).size();  // behind the last parameter; place 0 is x's
    variable_list result(place + 2);                        // nothing for `state` and `visit`
    std::vector<bool> wanted(place);
    for (size_t i = 0; i < place; ++i) wanted[i] = context->needs_input_grad(i);
    torch::Tensor grad_first = std::exchange(grads[0], {}) * 0.5, grad_second = grad_first.clone();
    for (auto layer = state.layers.rbegin(); layer != state.layers.rend(); ++layer) {
      place -= layer->g.parameters.size();
      StepBack(layer->g, streams.first, streams.second, grad_second, grad_first, wanted, place, result);
      place -= layer->f.parameters.size();
      StepBack(layer->f, streams.second, streams.first, grad_first, grad_second, wanted, place, result);
    }
    if (wanted[0]) result[0] = grad_first.add_(grad_second);
    return result;
  }
};

// ToStream of kernels/reversible.h through torch's graph.
torch::Tensor OnGrid(const torch::Tensor& x) {
  constexpr double kGrid = 1.5 * (1 << 20);
  return (x.to(torch::kFloat64) + kGrid) - kGrid;
}

}  // namespace

torch::Tensor RunReversible(const torch::Tensor& x, const std::vector<ReversibleLayer>& layers, const Visit& visit) {
  if (x.dim() != 2 || x.scalar_type() != torch::kFloat32)
    Fail("reversible layers: the input is {} {}, expected float32 [tokens, hidden]", x.toString(), c10::str(x.sizes()));
  if (!torch::GradMode::is_enabled()) {
    const Streams last = RunLayers(x, layers, visit);
    return Mean(last.first, last.second);
  }
  const std::vector<torch::Tensor> parameters = AllParameters(layers);
  return ReversibleOp::apply(x, at::TensorList(parameters),
                             std::make_shared<ReversibleState>(ReversibleState{layers, {}}), visit);
}

torch::Tensor RunReversibleReference(const torch::Tensor& x, const std::vector<ReversibleLayer>& layers) {
  torch::Tensor first = OnGrid(x), second = first;
  for (const ReversibleLayer& layer : layers) {
    first = first + OnGrid(layer.f.run(second.to(torch::kFloat32), {}));
    second = second + OnGrid(layer.g.run(first.to(torch::kFloat32), {}));
  }
  return (0.5 * (first + second)).to(torch::kFloat32);
}

}  // namespace lshformer
