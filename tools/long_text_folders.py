"""Tokenizer folders of the families with byte-level BPE and XLM-R's Unigram, as transformers writes them and as older files hold
them, for compare_tokenizers.py and the golden files. Nothing is downloaded: pieces are learnt from hard lines."""

import json
import os

import sentencepiece
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AddedToken, AutoTokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LATER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
NEWER = int(transformers.__version__.split(".")[0]) >= 5
# As in ModernBERT: runs of spaces, and tokens that take spaces.
SPACES = [AddedToken(" " * count, normalized=True, special=False) for count in (24, 8, 4, 3, 2)]
MODERN = SPACES + [AddedToken("|||IP|||", normalized=True), AddedToken("kayak", single_word=True, normalized=True), AddedToken("É", normalized=True)]


def put(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def learn_bytes(lines, size, specials):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def roberta_files(folder, lines, size=1200, **settings):
    """vocab.json and merges.txt, and tokenizer_config.json where there are settings."""
    os.makedirs(folder, exist_ok=True)
    tokenizer = learn_bytes(lines, size, ["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.model.save(folder)
    path = os.path.join(folder, "vocab.json")
    vocab = json.load(open(path, encoding="utf-8"))
    vocab["<mask>"] = len(vocab)
    put(folder, "vocab.json", json.dumps(vocab, ensure_ascii=False))
    put(folder, "config.json", json.dumps({"model_type": "roberta"}))
    if settings:
        put(folder, "tokenizer_config.json", json.dumps(settings))


def bert_around(cls, sep):
    return processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])


def modernbert_file(folder, lines, change=None, special=("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"), config=None, model=None, size=1100):
    tokenizer = learn_bytes(lines, size, [])
    if model is not None:
        whole = json.loads(tokenizer.to_str())
        whole["model"] = model(tokenizer)
        tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(MODERN)
    flags = {"[MASK]": {"lstrip": True}}
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False, **flags.get(token, {})) for token in special])
    tokenizer.post_processor = bert_around(tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]"))
    if change is not None:
        change(tokenizer)
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    names = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    put(folder, "tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names, **(config or {})}))
    put(folder, "config.json", json.dumps({"model_type": "modernbert"}))


def bytes_fall_back_file(folder, lines, tokens=256):
    """Gemma's form, which mmBERT has: characters, with a token for each byte."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"] + [f"<0x{byte:02X}>" for byte in range(tokens)]
    words = [word for line in lines for word in line.replace(" ", " ▁").split(" ")]
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    plain.train_from_iterator(words, trainers.BpeTrainer(vocab_size=900, limit_alphabet=150, special_tokens=special, show_progress=False))
    learnt = json.loads(plain.to_str())["model"]
    whole = json.loads(tokenizer.to_str())
    whole["model"]["vocab"], whole["model"]["merges"] = learnt["vocab"], learnt["merges"]
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.add_special_tokens(special[:5])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", pair="<bos> $A <eos> $B:1 <eos>:1", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    names = {"unk_token": "<unk>", "cls_token": "<bos>", "sep_token": "<eos>", "pad_token": "<pad>", "mask_token": "<mask>", "add_bos_token": True}
    put(folder, "tokenizer_config.json", json.dumps({"tokenizer_class": "GemmaTokenizer" if NEWER else "PreTrainedTokenizerFast", **names}))
    put(folder, "config.json", json.dumps({"model_type": "modernbert"}))


def xlm_roberta_files(folder, lines, **training):
    os.makedirs(folder, exist_ok=True)
    prefix = os.path.join(folder, "pieces")
    put(folder, "text.txt", "\n".join(line.replace("\n", " ").replace("\x00", " ") for line in lines))
    sentencepiece.SentencePieceTrainer.train(input=os.path.join(folder, "text.txt"), model_prefix=prefix, vocab_size=1400, model_type="unigram",
                                             character_coverage=0.98, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, hard_vocab_limit=False,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2, **training)  # fmt: skip
    os.rename(prefix + ".model", os.path.join(folder, "sentencepiece.bpe.model"))
    os.remove(prefix + ".vocab")
    os.remove(os.path.join(folder, "text.txt"))
    put(folder, "config.json", json.dumps({"model_type": "xlm-roberta"}))


def saved(folder, source, change=None, **settings):
    tokenizer = AutoTokenizer.from_pretrained(source, **settings)
    if change is not None:
        change(tokenizer)
    tokenizer.save_pretrained(folder)
    put(folder, "config.json", open(os.path.join(source, "config.json")).read())


def add_folders(add, at, lines, words, flagged, more):
    """Calls add(name, make, longest=0) for each folder; at(name) is its path."""
    add("roberta_files", lambda f: roberta_files(f, lines))
    add("roberta_files_space", lambda f: roberta_files(f, lines, add_prefix_space=True, tokenizer_class="RobertaTokenizer"))
    add("roberta_files_places", lambda f: roberta_files(f, lines, trim_offsets=False, tokenizer_class="RobertaTokenizer"))
    add("roberta_saved", lambda f: saved(f, at("roberta_files")))
    add("roberta_saved_space", lambda f: saved(f, at("roberta_files"), add_prefix_space=True))
    add("roberta_added_strings", lambda f: saved(f, at("roberta_files"), lambda t: t.add_tokens(words)))
    add("roberta_added_flags", lambda f: saved(f, at("roberta_files"), lambda t: t.add_tokens(flagged)))
    add("roberta_added_space", lambda f: saved(f, at("roberta_files"), lambda t: t.add_tokens(flagged), add_prefix_space=True))
    add("roberta_special", lambda f: saved(f, at("roberta_files"), lambda t: (t.add_special_tokens(more), t.add_tokens(["kayak"]))))
    add("roberta_left", lambda f: saved(f, at("roberta_files"), truncation_side="left", add_prefix_space=True), 12)
    add("roberta_right", lambda f: saved(f, at("roberta_files")), 12)

    add("modernbert", lambda f: modernbert_file(f, lines))
    add("modernbert_saved", lambda f: saved(f, at("modernbert")))
    add("modernbert_left", lambda f: modernbert_file(f, lines, config={"truncation_side": "left"}), 13)
    add("modernbert_right", lambda f: modernbert_file(f, lines), 13)

    def trimmed(tokenizer):
        around = bert_around(tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]"))
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True, add_prefix_space=False), around])

    add("modernbert_trimmed", lambda f: modernbert_file(f, lines, trimmed), 15)

    def bare(tokenizer):
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        tokenizer.normalizer = normalizers.NFKC()

    add("modernbert_bare", lambda f: modernbert_file(f, lines, bare))

    def split(digits):
        def change(tokenizer):
            cut = pre_tokenizers.Split(Regex(LATER % digits), "isolated", invert=False)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

        return change

    for name, digits in (("three", "{1,3}"), ("one", ""), ("all", "+")):
        add("split_" + name, lambda f, digits=digits: modernbert_file(f, lines, split(digits)))

    def gpt2(tokenizer):
        cut = pre_tokenizers.Split(Regex(GPT2), "removed", invert=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])  # fmt: skip

    add("split_gpt2", lambda f: modernbert_file(f, lines, gpt2))

    def strings_of(behavior):
        def change(tokenizer):
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split("a", behavior), pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)])  # fmt: skip

        return change

    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        add("split_" + behavior, lambda f, behavior=behavior: modernbert_file(f, lines, strings_of(behavior)))

    def whole_words(tokenizer):
        model = json.loads(tokenizer.to_str())["model"]
        for word in ("zebra", "unaffable", "Ġkayaks", "ġ"):
            model["vocab"].setdefault(word, len(model["vocab"]))
        model["ignore_merges"] = True
        return model

    def strings(folder):
        modernbert_file(folder, lines, model=whole_words)
        path = os.path.join(folder, "tokenizer.json")
        whole = json.load(open(path, encoding="utf-8"))
        whole["model"]["merges"] = [" ".join(merge) for merge in whole["model"]["merges"]]
        put(folder, "tokenizer.json", json.dumps(whole, ensure_ascii=False))

    add("modernbert_whole_words", strings)
    add("bytes_fall_back", lambda f: bytes_fall_back_file(f, lines))
    add("some_bytes_fall_back", lambda f: bytes_fall_back_file(f, lines, tokens=0xA0))

    add("xlm_roberta_files", lambda f: xlm_roberta_files(f, lines))
    add("xlm_roberta_files_own", lambda f: xlm_roberta_files(f, lines, user_defined_symbols=["(", ")", "kayak", "New York"], control_symbols=["<e1>"]))
    add("xlm_roberta_saved", lambda f: saved(f, at("xlm_roberta_files")))
    add("xlm_roberta_added_strings", lambda f: saved(f, at("xlm_roberta_files"), lambda t: t.add_tokens(words)))
    add("xlm_roberta_added_flags", lambda f: saved(f, at("xlm_roberta_files"), lambda t: t.add_tokens(flagged)))
    add("xlm_roberta_special", lambda f: saved(f, at("xlm_roberta_files"), lambda t: (t.add_special_tokens(more), t.add_tokens(["kayak"]))))
    add("xlm_roberta_left", lambda f: saved(f, at("xlm_roberta_files"), truncation_side="left"), 12)

    def generic(folder, config):
        saved(folder, at("xlm_roberta_saved"))
        path = os.path.join(folder, "tokenizer_config.json")
        settings = json.load(open(path, encoding="utf-8"))
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        put(folder, "tokenizer_config.json", json.dumps(settings))
        put(folder, "config.json", json.dumps(config))

    add("xlm_roberta_generic", lambda f: generic(f, {"model_type": "bert"}), 14)
    if NEWER:
        add("xlm_roberta_no_space", lambda f: saved(f, at("xlm_roberta_files"), add_prefix_space=False))
