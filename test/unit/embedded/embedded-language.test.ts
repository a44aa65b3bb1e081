import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { foreignLanguage } from "../../../packages/embedded/src/speech/foreign-words.ts";
import { spokenText } from "../../../packages/embedded/src/speech/spoken-text.ts";
import { slowed } from "../../support/slowed.ts";

/** Everyday sentences, most of them short: there is little to judge them by. */
const foreign: Readonly<Record<string, readonly string[]>> = {
  German: [
    "Guten Morgen, Herr Müller.",
    "Es tut mir leid, Herr Doktor",
    "Wo ist der Bahnhof?",
    "Ich habe heute keine Zeit.",
    "Der Zug nach Hamburg fährt um acht Uhr ab.",
  ],
  French: ["Bonjour tout le monde", "Où est la gare ?", "Je voudrais un café, s'il vous plaît.", "C'est une belle journée"],
  Spanish: ["Buenas noches", "¿Dónde está la biblioteca?", "Me gusta mucho el chocolate", "Los niños juegan en el parque."],
  Italian: ["Buongiorno a tutti", "Vorrei un bicchiere di vino rosso", "Il treno parte alle otto", "Non capisco niente."],
  Portuguese: ["Bom dia, tudo bem?", "Eu gosto de viajar pelo Brasil", "Onde fica o banheiro?", "Não sei o que fazer."],
  Catalan: ["Bon dia a tothom", "Avui fa molt bon temps", "On és l'estació?"],
  Dutch: ["Goedemorgen, hoe gaat het met je?", "Ik hou van jou", "Waar is het station?", "Vandaag schijnt de zon."],
  Swedish: ["God morgon, hur mår du?", "Jag älskar dig", "Var ligger stationen någonstans?"],
  Danish: ["Hvordan har du det?", "Jeg vil gerne have en kop kaffe", "Mange tak for mad"],
  Norwegian: ["Jeg elsker deg", "Hvor er stasjonen?", "Vi skal på tur i fjellet"],
  Icelandic: ["Góðan daginn", "Ég heiti Jón", "Hvar er hótelið?"],
  Finnish: ["Hyvää päivää, mitä kuuluu tänään?", "Minä rakastan sinua", "Missä on rautatieasema?"],
  Estonian: ["Tere hommikust", "Kuidas läheb?", "Ma ei räägi eesti keelt"],
  Hungarian: ["Köszönöm szépen…", "Jó reggelt kívánok", "Hol van a pályaudvar?", "Nem beszélek magyarul"],
  Polish: ["Dzień dobry", "Gdzie jest dworzec?", "Nie rozumiem po polsku", "Kocham cię bardzo"],
  Czech: ["Dobrý den, jak se máte?", "Kde je nádraží?", "Mluvíte anglicky?"],
  Slovak: ["Dobrý deň, ako sa máte?", "Ďakujem pekne", "Kde je stanica?"],
  Croatian: ["Dobro jutro svima", "Gdje je kolodvor?", "Ja te volim"],
  Slovenian: ["Dober dan, kako ste?", "Kje je postaja?", "Hvala lepa za vse"],
  Romanian: ["Bună ziua…", "Unde este gara?", "Mă numesc Andrei", "Te iubesc foarte mult"],
  Lithuanian: ["Labas rytas", "Kur yra stotis?", "Aš tave myliu"],
  Latvian: ["Labdien, kā jums klājas?", "Kur ir stacija?", "Es tevi mīlu"],
  Turkish: ["Merhaba arkadaşlar, günaydın", "İstasyon nerede?", "Seni çok seviyorum", "Bugün hava çok güzel"],
  Indonesian: ["Selamat pagi semuanya", "Di mana stasiun kereta?", "Saya tidak mengerti"],
  Tagalog: ["Magandang umaga po", "Nasaan ang istasyon?", "Mahal kita"],
  Swahili: ["Habari ya asubuhi", "Kituo kiko wapi?", "Asante sana rafiki"],
  Vietnamese: ["Xin chào các bạn", "Nhà ga ở đâu?", "Tôi yêu em"],
  shouted: ["GUTEN MORGEN", "¿DÓNDE ESTÁ LA BIBLIOTECA?"],
};

const english: readonly string[] = [
  "Los Angeles, Las Vegas.",
  "Van met Sue yesterday.",
  "Come see La La Land!",
  "Um, da Vinci painted.",
  "Müller scored twice in São Paulo.",
  "Beyoncé sang.",
  "A naïve café owner in Zürich",
  "José and Zoë live in Málaga.",
  "Leonardo da Vinci met Ludovico il Moro.",
  "El Paso is a city in Texas.",
  "Vincent van Gogh painted sunflowers.",
  "Ludwig van Beethoven, Johann Sebastian Bach, Wolfgang Amadeus Mozart",
  "Charles de Gaulle Airport, Terminal 2",
  "Robert De Niro, Leonardo DiCaprio, Benicio del Toro",
  "Der Spiegel and Die Zeit are German papers.",
  "Le Monde reported it first.",
  "Las Vegas hotels sold out.",
  "Rio de Janeiro, Buenos Aires, Santiago de Chile",
  "Crème brûlée and jalapeños, please!",
  "We had tapas, gruyère and a glass of rosé.",
  "Antonín Dvořák wrote his ninth symphony in New York.",
  "Erdoğan met Orbán and Babiš.",
  "Björk Guðmundsdóttir sings.",
  "Gabriel García Márquez wrote One Hundred Years of Solitude.",
  "Das Boot won prizes.",
  "Ben and Jan ran.",
  "Dan Brown, Per Petterson, Jo Nesbø",
  "Chat on main street, pay less tax.",
  "Comment on this post!",
  "Pour hot water.",
  "Mr. Dubois said bonjour and left.",
  "She shouted au revoir from the train.",
  "The German word for dog is Hund, and ich means I.",
  "Osama bin Laden, Ibn al Haytham, Ludwig Mies van der Rohe",
  "Hasta la vista, baby, he said.",
  "San Francisco, San Diego, Santa Monica",
  "Hello.",
  "Yes!",
  "OK",
  "Taxi! Hotel! Pizza! Radio!",
  "Red fish, blue fish.",
  "Die Hard stars Bruce Willis.",
  "IBM, NASA, UNESCO, DE, LA, EN",
  "Press A, B, X or Y.",
  "I can't, you won't, they'd better, we're done.",
  "Frau Holle lives in the Hohe Meissner.",
  "Signora Rossi teaches piano.",
  "Chicken à la king, pie à la mode",
  "Rafael Nadal beat Novak Đoković in four sets.",
  "Łukasz flew to Kraków on Tuesday.",
  "Dinner: pâté, soufflé, éclairs.",
  "Vive la France, cried everyone.",
  "Mother Teresa, Don Quixote, Dona Flor",
  "Set sail, me hearties!",
  "Men at arms hold fast.",
  "Ana, Eva, Marie, Jean, Luis",
  "Pan fry salmon, add salt.",
];

const foreignSentences = Object.entries(foreign).flatMap(([language, sentences]) => sentences.map((text) => [language, text] as const));

describe("a text in Latin letters", () => {
  test.each(foreignSentences)("in %s is refused: %s", (_, text) => {
    expect(foreignLanguage(text)).not.toBeNull();
  });

  test.each(english)("in English passes, whatever names it has: %s", (text) => {
    expect(foreignLanguage(text)).toBeNull();
  });

  test("is refused under the name of its language, or as one that is not English", () => {
    expect(spokenText("Wo ist der Bahnhof?")).toEqual({ kind: "foreign", what: "German" });
    expect(spokenText("xêzî wîtâ gêrû")).toEqual({ kind: "foreign", what: "a language other than English" });
  });

  test("in English keeps passing with a foreign sentence in it", () => {
    const english = "She looked at him for a long time and then said what they all had thought. ";
    fc.assert(
      fc.property(fc.constantFrom(...foreignSentences), fc.boolean(), ([, text], behind) => {
        expect(foreignLanguage(behind ? english + text : `${text}. ${english}`)).toBeNull();
      }),
    );
  });

  test("of the greatest length is judged in a moment", () => {
    const beganMs = performance.now();
    for (const text of ["a'", "Ä", "A1", " ", "der ", "'"]) foreignLanguage(text.repeat(1_000_000 / text.length));
    expect(performance.now() - beganMs).toBeLessThan(slowed(10_000));
  });
});
