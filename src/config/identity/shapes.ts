import { defaulted, groups, optional, optionalGroup, required } from "../field.ts";
import { address, duration, exactAddress, flag, issuer, list, mapOf, name, secret, text } from "../kinds.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;

export const signInShape = {
  local_accounts: defaulted(
    flag(),
    true,
    "Whether people can log in with a name and a password. Without it, `oidc` is the only way in for people; tokens for programs stay valid.",
  ),
  session: defaulted(duration(5 * minuteMs, 7 * dayMs), "12h", "The longest time that a session lasts."),
  idle: defaulted(duration(5 * minuteMs, 7 * dayMs), "30m", "A session ends after this time without a request."),
  oidc: optionalGroup(
    {
      issuer: required(
        issuer(),
        "The provider, exactly as its metadata names it. `/.well-known/openid-configuration` under this address is read.",
      ),
      client_id: required(text(), "What the provider calls this gateway."),
      client_secret: optional(secret(), "The secret that the provider gave with it; take it from a variable.", "none: a public client"),
      public_url: required(
        address(),
        "The address at which browsers reach the admin listener, such as `https://sluice.example.com`. Register `/admin/api/sign-in/callback` under it as redirect address at the provider.",
      ),
      logout_redirect: optional(
        exactAddress(),
        "Where the provider sends the browser after a sign-out, such as `https://sluice.example.com/console`. Register it at the provider as post-logout redirect address.",
        "the provider's own page",
      ),
      scopes: optional(list(text(), 20), "What is asked for. `openid` is always among it.", "`openid`, `profile`, `email`"),
      groups_claim: defaulted(
        text(),
        "groups",
        "The claim with the groups of a person: a text or a list of texts. Dots lead into nested claims, as in `realm_access.roles`.",
      ),
      admin_groups: optional(list(text(), 1000), "Who is in one of these groups is an admin.", "nobody"),
      group_admins: optional(
        mapOf(text(), text(), "map of groups"),
        "Who is in one of these groups of the provider manages a [group](groups.md) of this gateway, given by its name or id, such as `{ sales-leads: sales }`.",
        "nobody",
      ),
      viewer_groups: optional(
        list(text(), 1000),
        'Who is in one of these groups is a viewer; `"*"` stands for everybody whom the provider lets in.',
        "nobody",
      ),
    },
    "Sign-in with an OpenID Connect provider.",
  ),
};

export const tokenIssuerShape = {
  name: required(name(), "The issuer's name in the ids of keys, in logs and in commands. It must be unique."),
  issuer: required(issuer(), "The `iss` of its tokens, exactly."),
  audience: required(text(), "What the `aud` of its tokens must be, or contain. Choose one that is used for this gateway only."),
  jwks_uri: optional(issuer(), "Where its public keys are.", "what `/.well-known/openid-configuration` of the issuer says"),
  lifetime: defaulted(duration(minuteMs, dayMs), "24h", "Tokens that are valid for longer than this are refused."),
  rules: groups(
    {
      key: optional(
        name(),
        "The key whose permissions and limits the token has: one of this file by its name, or one of the store by its name or id; while that does not exist, or is revoked, the tokens are refused. Each subject has these limits for itself, and receipts of its own.",
        "everything is allowed, within the limits of the group",
      ),
      group: optional(
        name(),
        "The [group](groups.md) that the token belongs to: its limits count as well. A group of this file by its name, or one of the store by its name or id; while that does not exist, the tokens are refused.",
        "that of the key",
      ),
      claims: optional(
        mapOf(text(), text(), "map of claims"),
        "What the token must claim. A `*` stands for any run of characters; of a list, one value must match; dots lead into nested claims.",
        "every token of the issuer",
      ),
    },
    "What tokens may do. The first rule whose claims all match applies; a token that matches none is refused.",
  ),
};
