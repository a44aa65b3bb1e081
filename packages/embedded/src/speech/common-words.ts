/**
 * Common English words, and words that are spelled alike in another language ("comment", "met", "pour"). All of them count for English,
 * so that they decide nothing if they count for another language as well.
 */
export const englishWords: ReadonlySet<string> = new Set(
  `the a an and or but nor so yet if then else than that this these those there here where when why how what which who whom whose while as
  at by for from in into of off on onto out over to too up down under upon with without within about above across after again against
  along among around away back before behind below beneath beside between beyond during except inside near next outside past since
  through till toward towards until i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we
  us our ours ourselves they them their theirs themselves am is are was were be been being do does did done doing have has had having
  will would shall should can could may might must not no yes all any both each every few many more most much other others another some
  such same own only just even ever never always often once twice also still already almost very quite rather well now today tomorrow
  yesterday tonight morning evening night day week month year time one two three four five six seven eight nine ten hundred thousand
  first second third last new old good better best bad great little big small long short high low early late right left go goes going
  gone went come comes coming came get gets getting got make makes making made take takes taking took taken give gives gave given say
  says saying said tell told ask asked know knows knew known think thinks thought see sees seeing saw seen look looks looking looked want
  wants wanted need needs needed use uses used find found put let lets keep kept leave try tried call called work works worked play
  played live lives lived feel felt seem seems become begin began show shows hear heard run ran move like likes liked love loves loved
  hate thing things something nothing anything everything someone anyone everyone nobody people man men woman women child children boy
  girl friend friends family mother father brother sister son house home room door world city country street school book water food name
  word words hand hands eye eyes head face life way place part number hello hi hey please thanks thank welcome goodbye bye sorry okay ok
  oh um uh ah mr mrs miss ms dr sir because though although however instead perhaps maybe ago read write wrote open close stop start wait
  help bring brought buy bought pay paid eat ate drink drank meet met sit sat stand stood speak spoke sing sang song walk walked send
  sent turn turned ends order add serve served comment pour plus tout tot dig gut hat bin due dove ale den pro con per sin van era ere
  pan pie pot bit bet die fare hem med pas sans sense war ben jam dan sen sam ada ali ana kim baby dear cold hot warm happy free
  full half young car train tea coffee bread music story king queen mode carte sac cul blanche vie voyage pad dim sum faux hoc cetera capita bono diem par fresh nice happy dinner
  lunch breakfast hotel taxi radio pizza piano job team news error file page chapter version click press visit star stars lait alla cake min com org net www http https`.match(
    /\S+/g,
  ),
);

/** Foreign words that are part of many names: "Los Angeles", "da Vinci", "Das Boot". Alone they prove nothing. */
export const nameWords: ReadonlySet<string> = new Set(
  `la le les el los las lo il gli de del della di da do dos das du des der die den dem van von zu zum zur ter ten het al
  san santa santo são saint herr frau señor señora signor signora signore monsieur madame senhor senhora dona pan pani pán mon mi mein casa una un une uno ein eine en y et e o och og i a na no os as um mis su se vive amigo amigos tres au bon non elle ja ole`.match(
    /\S+/g,
  ),
);

/** The most common words of each language, and phrases without a verb or an article. */
export const foreignWords: readonly { readonly language: string; readonly words: readonly string[] }[] = [
  [
    "German",
    `der die das den dem des ein eine einen einem einer eines und oder aber nicht kein keine ich du er sie es wir ihr mich mir dich dir ihn
    ihm uns euch ihnen mein meine meinen dein deine sein seine unser unsere ist bin bist sind seid war waren sein haben habe hast hat habt
    hatte werden wird werde wurde kann können muss müssen soll will möchte auf aus bei mit nach von vor zu zum zur für über unter durch ohne
    um an am im in ins bis auch noch nur schon sehr so wie was wer wo wann warum wenn weil dass ob denn doch ja nein hier dort heute morgen
    gestern jetzt immer nie wieder alle alles etwas nichts viel mehr gut guten gute gutes danke bitte leid tut hallo tschüss auf wiedersehen
    herr frau willkommen schön geht kommt gibt sagt macht zwei drei vier fünf zeit jahr kinder liebe frohe weihnachten ostern geburtstag glückwunsch ihre ihren hilfe vielen dank später`,
  ],
  [
    "French",
    `le la les un une des du de et ou mais ne pas je tu il elle nous vous ils elles on me te se lui leur mon ma mes ton ta tes son sa ses
    notre nos votre vos ce cet cette ces qui que quoi dont où est suis es sommes êtes sont était être ai as a avons avez ont avoir fait faire
    dit va vais peut veux dans sur sous avec sans pour par chez entre vers au aux en très plus moins bien aussi encore jamais toujours
    comme comment quand pourquoi si oui non merci bonjour bonsoir salut beaucoup tout tous toute voici aujourd hui demain hier maintenant
    monde c j l d n s qu ça rien rue temps petit petite grand deux trois monsieur madame revoir plaît aime parle joyeux anniversaire bonne bon frère sœur`,
  ],
  [
    "Spanish",
    `el la los las un una unos unas y o pero no ni yo tú él ella nosotros ellos ellas usted ustedes me te se nos le les lo mi mis tu tus su
    sus este esta esto ese esa eso que qué quién cómo como cuándo cuando dónde donde por porque para con sin en de del al a desde hasta
    entre sobre es soy eres somos son está estoy están estás era fue ser estar hay he ha han tengo tiene tienes hacer hace muy más menos
    también siempre nunca hoy mañana ayer ahora aquí allí bien buenos buenas buen bueno buena días tardes noches gracias hola adiós favor
    si sí todo todos nada algo mucho mucha dos tres gusta quiero puede voy vamos amigo amigos señor señora casa te niños perro gato feliz cumpleaños hermana hermano vive`,
  ],
  [
    "Italian",
    `il lo la i gli le un uno una e ed o ma non io tu lui lei noi voi loro mi ti si ci vi mio mia tuo tua suo sua questo questa quello quella
    che chi cosa come quando dove perché se di del della dei delle dello degli a al alla da dal dalla in nel nella nelle con su sul sulla per
    tra fra è sono sei siamo siete era essere ho hai ha abbiamo avete hanno avere fa fare va vado può voglio molto più meno anche ancora
    sempre mai oggi domani ieri ora qui bene buono buona buon buongiorno buonasera buonanotte sera notte giorno grazie prego ciao
    arrivederci scusi sì no tutto tutti tutte niente qualcosa due tre signore signora ragazzi piace vorrei vorremmo bicchiere parte alle c l d dell nell all un tanti auguri presto arrivederci`,
  ],
  [
    "Portuguese",
    `o a os as um uma uns umas e ou mas não nem eu tu ele ela nós eles elas você vocês me te se lhe nos meu minha meus teu seu sua seus
    este esta isto esse essa isso aquele que quem como quando onde porque por para com sem em no na nos nas num numa de do da dos das ao à
    pelo pela até entre sobre é sou és somos são está estou estão foi era ser estar há tem tenho temos ter faz fazer vai vou pode quero muito
    muita mais menos também sempre nunca hoje amanhã ontem agora aqui bem bom boa bons dia tarde noite obrigado obrigada olá oi tchau adeus
    sim tudo todos nada algo dois duas três senhor senhora gosto casa feliz preciso ajuda irmã`,
  ],
  [
    "Catalan",
    `el la els les un una i o però no jo tu ell ella nosaltres vosaltres ells em et es ens us li meu meva aquest aquesta això que què qui com
    quan on per perquè amb sense en de del dels al als és sóc ets som són està estic era ser hi ha he tinc té molt més menys també sempre
    mai avui demà ahir ara aquí bé bon bona dia nit gràcies hola adéu si us plau tot tots res dos tres vull pot fa va l d s m n`,
  ],
  [
    "Dutch",
    `de het een en of maar niet geen ik jij je u hij zij ze wij we jullie hem haar ons hun mij mijn jouw zijn onze dit dat deze die wie wat
    waar wanneer waarom hoe is ben bent was waren heb hebt heeft hebben had word wordt worden kan kunnen moet moeten wil zal zou in op aan
    van voor met door naar uit bij over onder tot zonder om te als dan dus ook nog al alleen zeer erg veel meer goed goede goeden hier daar er
    vandaag morgen gisteren nu altijd nooit weer alles iets niets ja nee dank bedankt hallo dag alstublieft alsjeblieft graag gaat komt
    maakt twee drie vier mooi mooie leuk jaar tijd mensen huis avond heel jou hou ik jarig verjaardag ziens wel gaan volgende`,
  ],
  [
    "Afrikaans",
    `die n en of maar nie geen ek jy u hy sy ons julle hulle hom haar my jou hierdie dit dat wat wie waar hoekom hoe is was het kan moet wil
    sal in op aan van vir met deur na uit by oor tot sonder om te as dan ook nog baie meer goed goeie hier daar vandag môre gister nou altyd
    nooit alles iets niks ja nee dankie asseblief gaan kom twee drie huis mense totsiens`,
  ],
  [
    "Swedish",
    `och eller men inte jag du han hon vi ni de dem mig dig sig oss er min mitt mina din ditt sin den det en ett denna detta som vad vem var
    när varför hur är vara blir har hade kan ska skulle vill måste på i av för från till med utan under över om att så också bara mycket mer
    bra god här där idag imorgon igår nu alltid aldrig allt något inget ja nej tack hej tjej snälla går kommer gör två tre älskar heter
    mår morgon kväll barn år tid väldigt varit ingen sover ses`,
  ],
  [
    "Danish",
    `og eller men ikke jeg du han hun vi i de dem mig dig sig os jer min mit mine din dit sin den det en et denne dette som hvad hvem hvor
    hvornår hvorfor hvordan er være bliver har havde kan skal skulle vil må på af for fra til med uden under over om at så også kun meget
    mere godt god her der dag nu altid aldrig alt noget intet ja nej tak hej farvel gerne går kommer gør to tre elsker hedder børn år tid
    morgen aften efter når været nogle mange tillykke sover ses`,
  ],
  [
    "Norwegian",
    `og eller men ikke jeg du han hun vi dere de dem meg deg seg oss min mitt mine din ditt sin den det en ei et denne dette som hva hvem
    hvor når hvorfor hvordan er være blir har hadde kan skal skulle vil må på i av for fra til med uten under over om at så også bare mye mer
    bra god her der dag nå alltid aldri alt noe ingenting ja nei takk hei går kommer gjør to tre elsker heter barn år tid morgen kveld
    etter vært noen veldig mange gratulerer sover ses`,
  ],
  [
    "Icelandic",
    `og eða en ekki ég þú hann hún við þið þeir þær mig þig sig okkur minn mín þinn það þetta sem hvað hver hvar hvenær af hverju hvernig er
    eru vera var verður hef hefur hafa get getur skal vil á í um fyrir frá til með án yfir að líka bara mjög meira gott góðan góða hér þar
    dag dagur nú alltaf aldrei allt eitthvað já nei takk halló hæ bless kemur fer tveir þrír elska heiti`,
  ],
  [
    "Finnish",
    `ja tai mutta ei en et emme minä sinä hän me te he minun sinun hänen minua sinua minulla sinulla hänellä meidän tämä se ne tuo joka mikä
    mitä kuka missä milloin miksi miten on olen olet olemme ovat oli olla voi voin pitää täytyy haluan kanssa ilman ennen jälkeen kun jos niin
    myös vain hyvin paljon enemmän hyvä hyvää huomenta päivää iltaa yötä tänään huomenna eilen nyt aina koskaan kaikki jotain mitään kyllä
    joo kiitos hei moi terve anteeksi kuuluu menee tulee kaksi kolme rakastan suomea talo vuotta että onnea paljonko pian nähdään`,
  ],
  [
    "Estonian",
    `ja või aga ei mina ma sina sa tema ta meie me teie te nemad nad minu mu sinu see need mis kes kus millal miks kuidas on olen oled oleme
    olete oli olla pole võib peab tahan koos ilma enne pärast kui siis ka ainult väga palju rohkem hea tere hommikust päevast õhtust täna
    homme eile nüüd alati kunagi kõik midagi jah aitäh palun nägemist läheb tuleb kaks kolm armastan et seda kell`,
  ],
  [
    "Hungarian",
    `a az egy és vagy de nem én te ő mi ti ők engem téged nekem neked ez ezt azt aki ami hogy ki mit hol mikor miért hogyan van vagyok vagy
    vagyunk vannak volt lenni lesz kell lehet akarok nincs be ki fel le meg után előtt nélkül ha is csak nagyon sok több jó jól reggelt
    napot estét éjszakát ma holnap tegnap most mindig soha minden valami semmi igen köszönöm szépen kérem szia sziasztok viszontlátásra
    megy jön két kettő három szeretlek magyar hívnak itt ott boldog viszlát`,
  ],
  [
    "Polish",
    `i a oraz lub albo ale nie ja ty on ona ono my wy oni mnie mi cię ci go mu jej ich mój moja moje twój twoja swój ten ta to te tego tej tym
    który która które co kto gdzie kiedy dlaczego jak czy jest jestem jesteś są był była było być będzie mam masz ma mieć może można trzeba
    chcę w we z ze na do od o u po za przez przed pod nad dla bez się że żeby też także tylko bardzo więcej dobry dobrze dobranoc dzień
    wieczór tutaj tu tam dzisiaj dziś jutro wczoraj teraz zawsze nigdy wszystko coś nic tak dziękuję proszę cześć widzenia pan pani dwa trzy
    kocham idzie robi wszystkiego najlepszego zobaczenia`,
  ],
  [
    "Czech",
    `a i nebo ale ne já ty on ona ono my vy oni mě mi tě ti ho mu jí jich můj moje tvůj svůj ten ta to tato toto který která které co kdo kde
    kdy proč jak je jsem jsi jsme jste jsou byl byla bylo být bude mám máš má mít může musí chci v ve z ze na do od o u po za přes před pod
    nad pro bez s se si že aby také jen velmi více dobrý dobrá dobré dobře dobrou ráno den večer noc zde tady tam dnes zítra včera teď vždy
    nikdy všechno něco nic ano děkuji díky prosím ahoj čau nashledanou pan paní dva tři miluji máte není mluvíte mluvím`,
  ],
  [
    "Slovak",
    `a i alebo ale nie ja ty on ona ono my vy oni ma mi ťa ti ho mu jej ich môj moja moje tvoj svoj ten tá to táto toto ktorý ktorá ktoré čo
    kto kde kedy prečo ako je som si sme ste sú bol bola bolo byť bude mám máš má mať môže musí chcem v vo z zo na do od o u po za cez pred
    pod nad pre bez s so sa že aby aj tiež len veľmi viac dobrý dobrá dobré dobre dobrú ráno deň večer noc tu tam dnes zajtra včera teraz
    vždy nikdy všetko niečo nič áno ďakujem prosím ahoj čau dovidenia pán pani dva tri milujem máte`,
  ],
  [
    "Slovenian",
    `in ali pa ampak ne jaz ti on ona mi vi oni me te ga mu jo jih moj moja tvoj svoj ta to tisti ki kateri kaj kdo kje kdaj zakaj kako je sem
    si smo ste so bil bila bilo biti bo imam imaš ima lahko moram hočem v na do od o po za čez pred pod nad brez s z iz se da tudi samo zelo
    več dober dobro dobra dan jutro večer noč tukaj tam danes jutri včeraj zdaj vedno nikoli vse nekaj nič hvala prosim živjo nasvidenje
    gospod gospa dva tri ljubim`,
  ],
  [
    "Croatian, Bosnian or Serbian",
    `i a ili ali ne ja ti on ona ono mi vi oni me te ga mu je ju ih moj moja moje tvoj svoj taj ta to ovaj ova ovo koji koja koje što šta tko
    ko gdje gde kada zašto kako sam si smo ste su bio bila bilo biti bit će imam imaš ima može moram hoću želim u na do od o po za kroz
    pred pod nad bez s sa iz se da također samo vrlo veoma više dobar dobro dobra dan jutro večer noć ovdje tamo danas sutra jučer juče sada
    uvijek nikad sve nešto ništa hvala molim bok zdravo doviđenja gospodin gospođa dva tri volim nije jest nisam`,
  ],
  [
    "Romanian",
    `și si sau dar nu eu tu el ea noi voi ei ele mă te se ne vă îmi îți meu mea mele tău sa său acest această acesta asta care ce cine unde
    când de cum este e sunt ești suntem era fi fost am ai are avem aveți au poate trebuie vreau în din la pe cu fără pentru prin spre până
    după un o una unei unui al ale că să dacă și foarte mai mult bună bine ziua dimineața seara noapte aici acolo azi astăzi mâine ieri
    acum mereu niciodată tot toate ceva nimic da mulțumesc rog salut pa revedere domnul doamna doi trei iubesc faci`,
  ],
  [
    "Albanian",
    `dhe ose por nuk unë ti ai ajo ne ju ata mua ty im ime yt ky kjo që cili çfarë kush ku kur pse si është jam je jemi janë ishte të jesh kam
    ke ka mund duhet dua në nga për me pa mbi nën një se edhe vetëm shumë më mirë mirëdita mirëmëngjes këtu atje sot nesër dje tani
    gjithmonë kurrë gjithçka diçka asgjë po jo faleminderit përshëndetje tungjatjeta lutem dy tre`,
  ],
  [
    "Lithuanian",
    `ir arba bet ne aš tu jis ji mes jūs jie jos mane tave man tau mano tavo savo šis ši tai tas kuris kas kur kada kodėl kaip yra esu esi
    esame buvo būti bus turiu turi gali reikia noriu į iš su be per prie ant už po nuo iki apie kad jei taip pat tik labai daugiau geras gera
    gerai laba labas rytas diena vakaras naktis čia ten šiandien rytoj vakar dabar visada niekada viskas kažkas nieko ačiū prašau sveiki
    viso gero du trys myliu kiek`,
  ],
  [
    "Latvian",
    `un vai bet nē ne es tu viņš viņa mēs jūs viņi mani tevi man tev mans mana tavs savs šis šī tas tā kurš kas kur kad kāpēc kā ir esmu esi
    esam bija būt būs var vajag gribu no ar bez pie uz aiz pēc līdz par ka ja arī tikai ļoti vairāk labs laba labi labdien labrīt labvakar
    rīts diena vakars nakts šeit tur šodien rīt vakar tagad vienmēr nekad viss kaut nekas jā paldies lūdzu sveiki ata divi trīs mīlu`,
  ],
  [
    "Turkish",
    `ve veya ama değil ben sen o biz siz onlar beni seni bana sana benim senin onun bizim bu şu ki ne kim nerede zaman neden nasıl niye var
    yok mı mi mu mü için ile gibi kadar göre sonra önce bir iki üç çok daha en az da de iyi güzel günaydın günler akşamlar geceler burada
    orada bugün yarın dün şimdi her hiç hep şey evet hayır teşekkür teşekkürler ederim lütfen merhaba selam hoşça hoş geldiniz görüşürüz
    arkadaşlar olarak olan oldu olur istiyorum seviyorum gidiyorum misin mısın nasılsın nasılsınız saat kutlu olsun görüşmek`,
  ],
  [
    "Indonesian or Malay",
    `dan atau tetapi tapi tidak bukan saya aku kamu anda dia kami kita mereka ini itu yang apa siapa mana kapan mengapa kenapa bagaimana
    adalah ada akan sudah telah sedang bisa boleh harus ingin mau di ke dari pada dengan untuk oleh tanpa dalam seperti jika kalau karena juga
    hanya sangat sekali lebih banyak baik selamat pagi siang sore malam di sini sana hari besok kemarin sekarang selalu pernah semua
    sesuatu ya terima kasih tolong halo tinggal satu dua tiga cinta kabar orang rumah lagi tak awak berapa jam tahun sampai jumpa`,
  ],
  [
    "Tagalog",
    `ang ng mga sa si ni ay at o pero hindi wala ako ikaw ka siya kami tayo kayo sila ko mo niya namin natin akin iyo ito iyan iyon na ano
    sino saan kailan bakit paano may mayroon gusto para kung dahil din rin lang lamang napaka mas marami mabuti magandang umaga hapon gabi
    araw dito doon ngayon bukas kahapon palagi lahat oo po opo salamat pakiusap kumusta kamusta paalam mahal kita isa dalawa tatlo anong oras nasaan`,
  ],
  [
    "Swahili",
    `na au lakini si sio hapana mimi wewe yeye sisi ninyi wao wangu yangu yako yake huyu hii hiyo hizi ambaye nini nani wapi lini vipi ni
    kuwa alikuwa ana nina una wana ya wa la za cha vya kwa katika bila kama kwamba pia tu sana zaidi nzuri njema habari asubuhi mchana jioni
    usiku hapa pale leo kesho jana sasa daima kila kitu ndiyo asante tafadhali jambo karibu kwaheri moja mbili tatu nakupenda watu`,
  ],
  [
    "Vietnamese",
    `là và của không có tôi bạn anh chị em nó chúng ta họ một hai ba được cho những các người này đó kia gì ai đâu khi nào sao thế đang đã
    sẽ phải muốn trong ngoài trên dưới với từ đến để vì nếu cũng chỉ rất nhiều hơn tốt chào buổi sáng tối hôm nay ngày mai bây giờ luôn
    tất cả vâng cảm ơn xin lỗi tạm biệt yêu học tiếng việt làm`,
  ],
  [
    "Welsh",
    `a ac neu ond ddim nid dw i rwy rydw ti ef hi ni chi nhw fy dy ei ein eich eu hwn hon hyn y yr yn ar am at gan heb i o wrth dros trwy mae
    ydy ydych yw oedd bydd bod wedi beth pwy ble pryd pam sut hefyd iawn mwy da bore prynhawn nos noswaith dda heddiw yfory ddoe nawr bob
    popeth dim diolch croeso shwmae hwyl fawr os gwelwch`,
  ],
  [
    "Irish",
    `agus nó ach níl ní mé tú sé sí muid sibh siad mo do ár bhur seo sin an na ar ag as i le ó do gan faoi trí tá bhí beidh is céard cad cé
    cá conas freisin amháin go maith raibh dia duit maidin oíche anseo ansin inniu amárach inné anois gach slán fáilte`,
  ],
  [
    "Basque",
    `eta edo baina ez ni zu hura gu zuek haiek nire zure hau hori zer nor non noiz zergatik nola da naiz zara gara dira zen dut duzu du dugu
    dute izan ere bakarrik oso gehiago ondo egun on gabon arratsalde hemen han gaur bihar atzo orain beti inoiz dena bai eskerrik asko kaixo
    mesedez agur maite zaitut`,
  ],
].map(([language = "", words = ""]) => ({ language, words: words.match(/\S+/g) ?? [] }));

/** English words and names that are written with accents, in their base form. Names with a capital letter are not needed here. */
export const loanWords: ReadonlySet<string> = new Set(
  `à açaí adiós aïoli ångström appliqué apéritif appétit après attaché béarnaise béchamel blasé bête brûlé brûlée café canapé château cliché
  communiqué consommé coöperate coöperation coöperative coördinate coördination cortège crème crêpe croûton décolletage
  décor déclassé déjà dénouement détente doppelgänger éclair élan élite émigré entrée étude exposé façade fête fiancé fiancée flambé frappé
  gruyère habañero hôtel ingénue jalapeño jäger léger macramé maître mañana maté matinée mâché mêlée naïf naïve naïvely naïveté née noël
  olé pâté passé piña piñata pokémon précis protégé protégée purée résumé resumé reëlect risqué rôle rosé roué
  sauté sautée séance señor señora señorita smörgåsbord soirée soufflé soupçon über tête tiramisù touché très voilà vicuña zoölogy
  beyoncé björk brontë chloë citroën dvořák gödel göteborg häagen hermès josé köln kraków lancôme łódź málaga malmö mötley crüe müller
  münchen nestlé oréal andré renée réunion são schrödinger škoda tromsø zoë zürich état`.match(/\S+/g),
);
