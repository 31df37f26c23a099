#include "synth/words.h"

#include <array>

namespace lshformer::synth {
namespace {

using Words = std::span<const std::string_view>;
template <size_t n>
using List = std::array<std::string_view, n>;

constexpr List<4> kFarmRoles{"farmer", "shepherd", "miller", "gardener"};
constexpr List<10> kFarmNouns{"field", "barn", "horse", "plough", "fence", "orchard", "seed", "cart", "meadow", "crop"};
constexpr List<6> kFarmVerbs{"plant", "water", "harvest", "mow", "gather", "repair"};
constexpr List<6> kFarmAdjectives{"green", "muddy", "ripe", "fertile", "wooden", "dry"};
constexpr List<3> kFarmPlaces{"behind the old mill", "near the village", "along the river"};

constexpr List<4> kSeaRoles{"sailor", "captain", "fisher", "pilot"};
constexpr List<10> kSeaNouns{"ship", "anchor", "sail", "harbour", "rope", "storm", "deck", "compass", "island", "net"};
constexpr List<6> kSeaVerbs{"steer", "anchor", "load", "sight", "cross", "signal"};
constexpr List<6> kSeaAdjectives{"salty", "stormy", "deep", "distant", "rusty", "calm"};
constexpr List<3> kSeaPlaces{"off the northern coast", "in the crowded harbour", "beyond the lighthouse"};

constexpr List<4> kLawRoles{"judge", "lawyer", "clerk", "witness"};
constexpr List<10> kLawNouns{"contract", "clause",  "court",   "verdict", "claim",
                             "tenant",   "statute", "hearing", "penalty", "appeal"};
constexpr List<6> kLawVerbs{"sign", "reject", "amend", "enforce", "dispute", "review"};
constexpr List<6> kLawAdjectives{"binding", "void", "legal", "written", "disputed", "final"};
constexpr List<3> kLawPlaces{"before the high court", "under the new statute", "in the second hearing"};

constexpr List<4> kMedicalRoles{"doctor", "nurse", "surgeon", "patient"};
constexpr List<10> kMedicalNouns{"fever",    "wound",   "hospital", "bandage", "pulse",
                                 "medicine", "symptom", "clinic",   "needle",  "bone"};
constexpr List<6> kMedicalVerbs{"examine", "treat", "cure", "dress", "measure", "disinfect"};
constexpr List<6> kMedicalAdjectives{"painful", "infected", "healthy", "swollen", "sterile", "chronic"};
constexpr List<3> kMedicalPlaces{"in the emergency ward", "at the small clinic", "beside the patient"};

constexpr List<4> kStarRoles{"astronomer", "student", "observer", "professor"};
constexpr List<10> kStarNouns{"star",   "planet", "telescope", "orbit",   "comet",
                              "galaxy", "moon",   "lens",      "eclipse", "spectrum"};
constexpr List<6> kStarVerbs{"observe", "record", "predict", "calculate", "discover", "photograph"};
constexpr List<6> kStarAdjectives{"bright", "faint", "remote", "massive", "invisible", "red"};
constexpr List<3> kStarPlaces{"above the southern horizon", "at the mountain observatory", "beyond the outer planets"};

constexpr List<4> kKitchenRoles{"cook", "baker", "waiter", "guest"};
constexpr List<10> kKitchenNouns{"soup", "oven", "loaf", "kettle", "spice", "plate", "sauce", "recipe", "onion", "pan"};
constexpr List<6> kKitchenVerbs{"bake", "stir", "roast", "season", "taste", "boil"};
constexpr List<6> kKitchenAdjectives{"sweet", "bitter", "fresh", "hot", "burnt", "crisp"};
constexpr List<3> kKitchenPlaces{"in the narrow kitchen", "on the iron stove", "for the evening table"};

constexpr List<4> kRailRoles{"driver", "conductor", "passenger", "engineer"};
constexpr List<10> kRailNouns{"train",  "platform", "ticket",   "engine",    "signal",
                              "tunnel", "bridge",   "carriage", "timetable", "whistle"};
constexpr List<6> kRailVerbs{"delay", "board", "inspect", "couple", "announce", "stop"};
constexpr List<6> kRailAdjectives{"late", "crowded", "fast", "empty", "noisy", "electric"};
constexpr List<3> kRailPlaces{"at the central station", "through the long tunnel", "across the iron bridge"};

constexpr List<4> kMusicRoles{"composer", "singer", "violinist", "pupil"};
constexpr List<10> kMusicNouns{"song",   "concert", "melody",   "piano", "chorus",
                               "rhythm", "stage",   "symphony", "drum",  "rehearsal"};
constexpr List<6> kMusicVerbs{"compose", "practise", "perform", "tune", "rehearse", "conduct"};
constexpr List<6> kMusicAdjectives{"loud", "gentle", "slow", "solemn", "lively", "minor"};
constexpr List<3> kMusicPlaces{"in the concert hall", "at the royal theatre", "during the second movement"};

constexpr List<4> kTradeRoles{"merchant", "banker", "customer", "trader"};
constexpr List<10> kTradeNouns{"market", "price",   "coin", "debt",    "shop",
                               "profit", "invoice", "loan", "bargain", "account"};
constexpr List<6> kTradeVerbs{"export", "deliver", "borrow", "invest", "order", "exchange"};
constexpr List<6> kTradeAdjectives{"cheap", "costly", "annual", "rare", "unpaid", "foreign"};
constexpr List<3> kTradePlaces{"on the busy market", "in the counting house", "at the autumn fair"};

constexpr List<4> kWarRoles{"soldier", "general", "guard", "messenger"};
constexpr List<10> kWarNouns{"castle", "sword", "army", "gate", "shield", "siege", "wall", "camp", "battle", "flag"};
constexpr List<6> kWarVerbs{"attack", "defend", "capture", "surround", "destroy", "guard"};
constexpr List<6> kWarAdjectives{"brave", "broken", "ancient", "hostile", "ruined", "strong"};
constexpr List<3> kWarPlaces{"outside the city walls", "on the western border", "at the castle gate"};

constexpr List<4> kCodeRoles{"programmer", "tester", "analyst", "customer"};
constexpr List<10> kCodeNouns{"server",   "query",    "function", "error",  "network",
                              "password", "compiler", "database", "screen", "update"};
constexpr List<6> kCodeVerbs{"compile", "install", "debug", "encrypt", "delete", "release"};
constexpr List<6> kCodeAdjectives{"slow", "secure", "digital", "parallel", "obsolete", "remote"};
constexpr List<3> kCodePlaces{"in the data centre", "on the test server", "behind the firewall"};

constexpr List<4> kWoodRoles{"hunter", "ranger", "traveller", "woodcutter"};
constexpr List<10> kWoodNouns{"forest", "path", "deer", "axe", "cabin", "river", "wolf", "branch", "trail", "camp"};
constexpr List<6> kWoodVerbs{"follow", "track", "climb", "explore", "chop", "cross"};
constexpr List<6> kWoodAdjectives{"dark", "wild", "hidden", "frozen", "narrow", "silent"};
constexpr List<3> kWoodPlaces{"deep in the forest", "beneath the tall pines", "on the frozen lake"};

constexpr std::array<Topic, 12> kTopics{{
    {kFarmRoles, kFarmNouns, kFarmVerbs, kFarmAdjectives, kFarmPlaces},
    {kSeaRoles, kSeaNouns, kSeaVerbs, kSeaAdjectives, kSeaPlaces},
    {kLawRoles, kLawNouns, kLawVerbs, kLawAdjectives, kLawPlaces},
    {kMedicalRoles, kMedicalNouns, kMedicalVerbs, kMedicalAdjectives, kMedicalPlaces},
    {kStarRoles, kStarNouns, kStarVerbs, kStarAdjectives, kStarPlaces},
    {kKitchenRoles, kKitchenNouns, kKitchenVerbs, kKitchenAdjectives, kKitchenPlaces},
    {kRailRoles, kRailNouns, kRailVerbs, kRailAdjectives, kRailPlaces},
    {kMusicRoles, kMusicNouns, kMusicVerbs, kMusicAdjectives, kMusicPlaces},
    {kTradeRoles, kTradeNouns, kTradeVerbs, kTradeAdjectives, kTradePlaces},
    {kWarRoles, kWarNouns, kWarVerbs, kWarAdjectives, kWarPlaces},
    {kCodeRoles, kCodeNouns, kCodeVerbs, kCodeAdjectives, kCodePlaces},
    {kWoodRoles, kWoodNouns, kWoodVerbs, kWoodAdjectives, kWoodPlaces},
}};

constexpr std::array<Person, 24> kPeople{{
    {"Anna", true},   {"Bernard", false}, {"Clara", true},  {"David", false},  {"Edith", true},  {"Felix", false},
    {"Grace", true},  {"Henry", false},   {"Irene", true},  {"Jacob", false},  {"Karla", true},  {"Lucas", false},
    {"Maria", true},  {"Nathan", false},  {"Olivia", true}, {"Peter", false},  {"Rosa", true},   {"Simon", false},
    {"Teresa", true}, {"Ulrich", false},  {"Vera", true},   {"Walter", false}, {"Yvonne", true}, {"Zachary", false},
}};

constexpr List<8> kAnimals{"badger", "beaver", "camel", "donkey", "otter", "rabbit", "squirrel", "zebra"};
constexpr List<8> kBirds{"canary", "eagle", "falcon", "heron", "parrot", "pigeon", "sparrow", "swan"};
constexpr List<8> kFlowers{"daisy", "iris", "jasmine", "lilac", "orchid", "poppy", "tulip", "lily"};
constexpr List<8> kFruits{"apple", "cherry", "grape", "lemon", "mango", "melon", "peach", "plum"};
constexpr List<8> kGarments{"apron", "belt", "boot", "glove", "jacket", "scarf", "shirt", "sock"};
constexpr List<8> kGems{"amber", "diamond", "emerald", "opal", "pearl", "ruby", "sapphire", "topaz"};
constexpr List<8> kInstruments{"banjo", "cello", "clarinet", "flute", "guitar", "harp", "trumpet", "violin"};
constexpr List<8> kTools{"chisel", "drill", "hammer", "ladder", "pliers", "rake", "shovel", "wrench"};
constexpr std::array<Kind, 8> kKinds{{{"animal", kAnimals},
                                      {"bird", kBirds},
                                      {"flower", kFlowers},
                                      {"fruit", kFruits},
                                      {"garment", kGarments},
                                      {"gem", kGems},
                                      {"instrument", kInstruments},
                                      {"tool", kTools}}};

constexpr List<10> kTimePhrases{"in the morning", "late in the evening", "on the next day", "after the rain",
                                "before dawn",    "during the winter",   "every week",      "at noon",
                                "for many years", "without a word"};
constexpr List<8> kQuantities{"two", "three", "four", "several", "many", "all the", "a few", "most of the"};
constexpr List<6> kSpeechVerbs{"said", "answered", "whispered", "explained", "replied", "shouted"};

constexpr List<8> kMildGood{"good", "charming", "clever", "fresh", "funny", "engaging", "likeable", "warm"};
constexpr List<8> kMildBad{"bad", "dull", "clumsy", "stale", "boring", "predictable", "shallow", "cold"};
constexpr List<6> kStrongGood{"superb", "brilliant", "wonderful", "masterful", "gorgeous", "unforgettable"};
constexpr List<6> kStrongBad{"awful", "dreadful", "terrible", "hopeless", "hideous", "unbearable"};
constexpr List<6> kVerdictsGood{"delights from the first scene to the last",
                                "deserves every award",
                                "rewards a patient viewer",
                                "never fails to entertain",
                                "holds the attention without effort",
                                "leaves a smile"};
constexpr List<6> kVerdictsBad{"disappoints from the first scene to the last",
                               "deserves no award",
                               "punishes a patient viewer",
                               "never manages to entertain",
                               "loses the attention without effort",
                               "leaves a headache"};
constexpr List<14> kAspects{"plot",  "acting", "script",    "music",  "photography", "dialogue", "ending",
                            "story", "cast",   "direction", "humour", "opening",     "hero",     "film"};
constexpr List<6> kIntensifiers{"very", "truly", "really", "quite", "simply", "rather"};
constexpr List<5> kNegations{"not", "never", "hardly", "by no means", "far from"};
constexpr List<8> kNeutral{"the film runs for two hours",      "it was shown at a small festival",
                           "most scenes take place in a city", "the director has made five films",
                           "it is based on a novel",           "we saw it on a rainy evening",
                           "the story begins in a village",    "the cinema was half full"};

bool EndsWithAny(std::string_view word, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (word.ends_with(ending)) return true;
  }
  return false;
}

// "carry" → "carri", but "play" stays.
bool EndsInConsonantY(std::string_view word) {
  return word.size() > 1 && word.back() == 'y' &&
         std::string_view("aeiou").find(word[word.size() - 2]) == std::string_view::npos;
}

std::string AddS(std::string_view word) {
  std::string result(word);
  if (EndsInConsonantY(word)) {
    result.pop_back();
    return result + "ies";
  }
  return result + (EndsWithAny(word, {"s", "x", "ch", "sh"}) ? "es" : "s");
}

}  // namespace

std::span<const Topic> Topics() { return kTopics; }
std::span<const Person> People() { return kPeople; }
std::span<const Kind> Kinds() { return kKinds; }
Words TimePhrases() { return kTimePhrases; }
Words Quantities() { return kQuantities; }
Words SpeechVerbs() { return kSpeechVerbs; }
Words MildAdjectives(bool positive) { return positive ? Words(kMildGood) : Words(kMildBad); }
Words StrongAdjectives(bool positive) { return positive ? Words(kStrongGood) : Words(kStrongBad); }
Words Verdicts(bool positive) { return positive ? Words(kVerdictsGood) : Words(kVerdictsBad); }
Words Aspects() { return kAspects; }
Words Intensifiers() { return kIntensifiers; }
Words Negations() { return kNegations; }
Words NeutralRemarks() { return kNeutral; }

std::string Plural(std::string_view noun) {
  if (noun == "deer") return "deer";
  if (noun == "wolf") return "wolves";
  if (noun == "loaf") return "loaves";
  if (noun == "spectrum") return "spectra";
  return AddS(noun);
}

std::string ThirdPerson(std::string_view verb) { return AddS(verb); }

std::string Past(std::string_view verb) {
  std::string result(verb);
  if (verb == "debug") return "debugged";
  if (EndsWithAny(verb, {"stir", "chop", "stop"})) return result + result.back() + "ed";
  if (verb.back() == 'e') return result + "d";
  if (EndsInConsonantY(verb)) {
    result.pop_back();
    return result + "ied";
  }
  return result + "ed";
}

}  // namespace lshformer::synth
