import{a,b}from"./chunk-ZOQPL7YW.js";import"./chunk-EREAM57S.js";import"./chunk-F7BGO2AC.js";export{a as OutcomeBar,b as default};
