"""Public vocabularies: lists that everybody knows, so that nobody types them."""

from collections.abc import Mapping, Sequence

Vocabulary = Sequence[str] | Mapping[str, Sequence[str]]  # categories, or groups of codes by prefix


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


VOCABULARIES: dict[str, Vocabulary] = {
    "weekdays": words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "months": words(
        "January February March April May June July August September October November December"
    ),
    "blood_types": words("A+ A- B+ B- AB+ AB- O+ O-"),
    "eu_countries": words(
        "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE"
    ),
    "us_states": words(
        "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV "
        "NH NJ NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY"
    ),
    "icd10_chapters": {
        "infections": ("A00-B99",),
        "neoplasms": ("C00-D49",),
        "blood": ("D50-D89",),
        "endocrine": ("E00-E89",),
        "mental": ("F01-F99",),
        "nervous system": ("G00-G99",),
        "eye": ("H00-H59",),
        "ear": ("H60-H95",),
        "circulation": ("I00-I99",),
        "respiration": ("J00-J99",),
        "digestion": ("K00-K95",),
        "skin": ("L00-L99",),
        "musculoskeletal": ("M00-M99",),
        "genitourinary": ("N00-N99",),
        "pregnancy": ("O00-O99",),
        "perinatal": ("P00-P96",),
        "congenital": ("Q00-Q99",),
        "symptoms": ("R00-R99",),
        "injuries": ("S00-T98",),
        "special purposes": ("U00-U99",),
        "external causes": ("V00-Y99",),
        "contact with services": ("Z00-Z99",),
    },
}
"""By name. Countries are ISO 3166-1 alpha-2; diagnoses are the chapters of the WHO's ICD-10 and of
its US modification, whose last codes are the larger ones here."""
