# The door: the headers that a program with lshformer includes, as <lshformer/NAME>, and where each stands below src/. They
# stay as they are within a minor version; <lshformer/lshformer.h> has them all. What they include in turn is installed as
# <lshformer/detail/LAYER/NAME> and may change at any time. No other header is installed.
set(LSHFORMER_DOOR
  error.h           base/error.h
  figures.h         base/figures.h
  parallel.h        base/parallel.h
  progress.h        base/progress.h
  signals.h         base/signals.h
  spec.h            attention/spec.h
  operator.h        kernels/operator.h
  tokenizer.h       text/tokenizer.h
  model.h           models/model.h
  pipeline.h        infer/pipeline.h
  stream.h          infer/stream.h
  threads.h         ops/threads.h
  options.h         train/options.h
  step.h            train/step.h
  train.h           jobs/train.h
  pretrain.h        jobs/pretrain.h
  evaluate.h        jobs/evaluate.h
  predict.h         jobs/predict/predict.h
  train_tokenizer.h jobs/tokenizer.h
  synth.h           jobs/synth.h
  convert.h         convert/convert.h
  tune.h            bench/tune.h)
