/** Words and names that English writes with accents, in their plainest form. A name with a capital letter needs no place here. */
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
